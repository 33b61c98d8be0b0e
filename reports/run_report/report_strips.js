// Saves a causal strip, or a sequence diagram, as an SVG or a PNG, made in the page; copies commands. Nothing is sent or
// loaded.

const SCALE = 2;

/** The picture by itself, in the light colours that its elements carry. */
function pictureOf(strip) {
  const copy = strip.cloneNode(true);
  copy.removeAttribute("style");
  copy.setAttribute("width", strip.viewBox.baseVal.width);
  copy.setAttribute("height", strip.viewBox.baseVal.height);
  return new XMLSerializer().serializeToString(copy);
}

function save(address, name) {
  const link = document.createElement("a");
  [link.href, link.download] = [address, name];
  link.click();
}

function pngOf(strip) {
  const picture = new Image(), { width, height } = strip.viewBox.baseVal;
  return new Promise((resolve, reject) => {
    picture.onload = () => {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [width * SCALE, height * SCALE];
      canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
      resolve(canvas.toDataURL("image/png"));
    };
    picture.onerror = reject;
    picture.src = svgAddress(strip);
  });
}

function svgAddress(strip) {
  return "data:image/svg+xml;charset=utf-8," + encodeURIComponent(pictureOf(strip));
}

for (const strip of document.querySelectorAll("svg.strip")) {
  const card = strip.closest("section"), kind = strip.classList.contains("sequence") ? "-sequence" : "";
  const name = document.body.dataset.run + "-" + card.id + kind;
  const bar = document.createElement("p");
  bar.className = "save";
  const button = (form, act) => {
    const one = document.createElement("button");
    [one.type, one.textContent] = ["button", "save as " + form];
    one.setAttribute("aria-label", "save as " + form + " the " + (kind ? "sequence" : "picture") + " of " + card.id);
    one.addEventListener("click", act);
    bar.append(one);
  };
  button("SVG", () => save(svgAddress(strip), name + ".svg"));
  button("PNG", async () => save(await pngOf(strip), name + ".png"));
  strip.parentElement.after(bar);
}

for (const button of document.querySelectorAll(".copy")) {
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "copied";
    } catch { // not where a browser forbids it: then the command is selected, to be copied by hand
      getSelection().selectAllChildren(button.parentElement.querySelector("code"));
    }
  });
}
