"""todo.scan: the checked input is JSON on stdin, the result the last line of stdout.

Needs nothing but Python's standard library. "spritekit serve" keeps the contract around it.
"""
import json
import os
import subprocess
import sys

MAX_FILE = 1 << 20  # bytes; what is larger is no source


def fail(code, exit_code, message, hint=""):
    error = {"code": code, "message": message, "hint": hint, "retryable": False}
    print(json.dumps({"ok": False, "skill": "todo.scan", "error": error, "events": 0}))
    sys.exit(exit_code)


def inside(path):
    """The path within the workspace, which is the working directory; nothing leads out of it."""
    top = os.getcwd()
    real = os.path.realpath(os.path.join(top, path))
    if real != top and not real.startswith(top + os.sep):
        fail("unsafe_path", 7, f"{path} leads out of the workspace", "name a folder below it")
    return real


def scan(folder, words):
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        for name in sorted(files):
            path = os.path.join(parent, name)
            if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) > MAX_FILE:
                continue
            with open(path, encoding="utf-8", errors="replace") as lines:
                for number, line in enumerate(lines, 1):
                    if any(word in line for word in words):
                        yield {"path": os.path.relpath(path), "line": number, "text": line.strip()[:200]}


def main():
    asked = json.load(sys.stdin)
    folder = inside(asked["path"])
    if not os.path.isdir(folder):
        fail("not_found", 3, f"there is no folder {asked['path']}")
    found = list(scan(folder, asked["words"]))
    result = {"found": found, "count": len(found)}
    if asked["report"]:
        with open(inside(asked["report"]), "w", encoding="utf-8") as report:
            report.writelines(f"- `{f['path']}:{f['line']}` {f['text']}\n" for f in found)
        result["report"] = asked["report"]
        subprocess.run(["spritekit", "emit", "ARTIFACT", "kind=file", f"ref={asked['report']}"], check=True)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
