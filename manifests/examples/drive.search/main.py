"""drive.search: documents whose title shares words with the query, those with most of them first."""
import json
import os
import re
import sys
from datetime import datetime, timezone


def fail(code, exit_code, message, hint=""):
    error = {"code": code, "message": message, "hint": hint, "retryable": False}
    print(json.dumps({"ok": False, "skill": "drive.search", "error": error, "events": 0}))
    sys.exit(exit_code)


def words(text):
    return set(re.findall(r"[a-z0-9]+", text.lower()))


def main():
    asked = json.load(sys.stdin)
    top = os.getcwd()
    folder = os.path.realpath(os.path.join(top, asked["folder"]))
    if not folder.startswith(top + os.sep):
        fail("unsafe_path", 7, f"{asked['folder']} leads out of the workspace")
    if not os.path.isdir(folder):
        fail("not_found", 3, f"there is no folder {asked['folder']}")
    found = []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        shared = len(words(name) & words(asked["query"]))
        if shared and os.path.isfile(path) and not os.path.islink(path):
            changed = datetime.fromtimestamp(os.path.getmtime(path), timezone.utc)
            entry = {"id": os.path.relpath(path, top), "title": name, "modified_time": changed.strftime("%Y-%m-%dT%H:%M:%SZ")}
            found.append((-shared, name, entry))
    print(json.dumps({"results": [entry for _, _, entry in sorted(found, key=lambda f: f[:2])]}))


if __name__ == "__main__":
    main()
