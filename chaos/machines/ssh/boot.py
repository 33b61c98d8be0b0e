"""The first program on a host: it takes the nodes' code, if the host lacks it, and becomes the agent.

It is given to the host's Python as a text and must therefore do with any Python 3. It imports nothing of ours. It reads
one line of JSON, answers with one, and then reads the wheel if it has asked for it. The code lies in a folder named
after its version and hash, so that runs of different versions never disturb each other.
"""

import hashlib
import io
import json
import os
import runpy
import shutil
import sys
import tempfile
import zipfile

#: Begins our lines; what a login shell prints before them is passed over.
MARK = "stormproof:"


def main() -> None:
    request = json.loads(sys.stdin.buffer.readline().decode())
    if sys.version_info < tuple(request["python"]):
        say({"problem": "it has Python " + sys.version.split()[0]})
        return
    root = os.path.abspath(request["directory"])
    code = os.path.join(root, "code", request["name"])
    try:
        os.makedirs(os.path.dirname(code), mode=0o755, exist_ok=True)
        say({"need": not os.path.isdir(code)})
        if not os.path.isdir(code):
            unpack(sys.stdin.buffer.read(request["bytes"]), request["digest"], code)
    except OSError as error:
        say({"problem": "the code can't be put into " + code + ": " + str(error)})
        return
    say({})
    sys.argv = ["agent", root, code]
    sys.path.insert(0, code)
    runpy.run_module("chaos.machines.ssh.agent", run_name="__main__")


def unpack(data: bytes, digest: str, code: str) -> None:
    """Unpack all or nothing: who finds the folder can use it."""
    if hashlib.sha256(data).hexdigest() != digest:
        raise OSError("it was damaged on its way")
    part = tempfile.mkdtemp(dir=os.path.dirname(code))
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            archive.extractall(part)
        import compileall

        compileall.compile_dir(part, quiet=2)
        os.chmod(part, 0o755)
        try:
            os.rename(part, code)
        except OSError:
            if not os.path.isdir(code):  # another one was faster otherwise
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def say(answer: object) -> None:
    sys.stdout.write(MARK + json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
