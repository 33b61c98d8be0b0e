"""``stormproof report``: show what was found in judged runs, as a page or in another form."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from pathlib import Path

import click

from chaos.errors import BadInput
from chaos.history import directory, opening
from stormproof.commands import _console
from stormproof.commands._options import json_option, out_option

HTML, FINDING, ISSUE, MARKDOWN = "html", "finding", "issue", "markdown"


class Form(click.ParamType):
    """One of ours, or one of the modules in ``reports/exports``, which is looked at only when a form is asked for."""

    name = "form"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from chaos import plugins
        from reports import exports

        known = (HTML, FINDING, ISSUE, MARKDOWN, *exports.formats())
        if value not in known:
            self.fail(f"{value!r} is no form of a report; {plugins.nearest(value, known)}", param, ctx)
        return value


class _Command(click.Command):
    """Names the formats of other programs at the end of its help."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from reports import exports

        with formatter.section("Formats of other programs"):
            formatter.write_dl([(name, exports.about(name)) for name in exports.formats()])


@click.command(cls=_Command)
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option(
    "--as",
    "form",
    type=Form(),
    default=HTML,
    show_default=True,
    metavar="FORM",
    help="html, finding, issue, markdown, or a format below.",
)
@click.option("--cause", type=click.IntRange(min=1), metavar="N", help="With finding or issue: of this cause.")
@click.option("--open", "open_it", is_flag=True, help="Open the page in a browser.")
@out_option
@json_option
def report(runs: tuple[str, ...], form: str, cause: int | None, open_it: bool, out: Path, as_json: bool) -> None:
    """Write report.html and junit.xml of judged RUNs (default: the latest) and print where they are.

    With --as, write another FORM: `finding`, a page about one cause of the violations for those who make the system
    (example, events, experiment, versions, replay command); `issue`, the same printed as Markdown; `markdown`, the
    RUNs (default: all in --out) printed as Markdown for the page of a CI job; or a format of another program.

    RUN may be a ZIP archive (an artefact of a CI server): the runs in it are put into --out. Exit code 0, whatever the
    verdicts are.
    """
    if cause is not None and form not in (FINDING, ISSUE):
        raise BadInput("--cause is for --as finding and --as issue")
    if open_it and form not in (HTML, FINDING):
        raise BadInput("--open is for pages: leave out --as, or take --as finding")
    if form == MARKDOWN:
        show_summary(resolved(runs, out) if runs else directory.runs(out), as_json=as_json)
        return
    found = resolved(runs or (directory.LATEST,), out)
    if form in (FINDING, ISSUE):
        pages = show_finding(found, cause or 1, as_markdown=form == ISSUE and not as_json, as_json=as_json)
    elif form == HTML:
        pages = _write_pages(found, as_json=as_json)
    else:
        pages = show_export(found, form, as_json=as_json)
    for page in pages if open_it else ():
        open_in_browser(page)


def open_in_browser(page: Path) -> None:
    """Show a page that was just written."""
    webbrowser.open(page.absolute().as_uri())


def resolved(words: Sequence[str], out: Path) -> list[Path]:
    """Return the runs that are meant, as :func:`chaos.history.opening.resolve` says."""
    return [run for word in words for run in opening.resolve(word, out)]


def _write_pages(runs: Sequence[Path], *, as_json: bool) -> list[Path]:
    from reports import render

    pages = []
    for run in runs:
        pages.append(render(run))
        if not as_json:
            _console.say(pages[-1])
    if as_json:
        written = [{"run": str(run), "report": str(page)} for run, page in zip(runs, pages, strict=True)]
        _console.print_json(written)
    return pages


def show_finding(runs: Sequence[Path], cause: int, *, as_markdown: bool, as_json: bool) -> list[Path]:
    """Print one cause of the violations of each run as Markdown or JSON; else write a page of it, and return where
    these are."""
    from reports.finding import as_markdown as markdown
    from reports.finding import as_object, html, model

    pages = []
    for run in runs:
        about = model.find(run, cause)
        if as_json:
            _console.print_json(as_object.as_object(about))
        elif as_markdown:
            _console.say_document(markdown.markdown(about))
        else:
            pages.append(html.write(run, about))
            _console.say(pages[-1])
    return pages


def show_summary(runs: Sequence[Path], *, as_json: bool) -> None:
    """Print judged runs as Markdown; as JSON an object for each run, the worst first."""
    from reports.markdown import summary, tell

    if as_json:
        _console.print_json(tell(runs))
    else:
        _console.say_document(summary(runs))


def show_export(runs: Sequence[Path], form: str, *, as_json: bool) -> list[Path]:
    """Write each run in the format of another program, print where it is, and return that."""
    from reports import exports

    files = [exports.write(run, form) for run in runs]
    if as_json:
        _console.print_json([{"run": str(run), "file": str(file)} for run, file in zip(runs, files, strict=True)])
        return files
    for file in files:
        _console.say(file)
    return files
