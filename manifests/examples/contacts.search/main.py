"""contacts.search: every word of the query begins a word of the name, whatever its case."""
import json
import os
import sys


def fail(code, exit_code, message, hint=""):
    error = {"code": code, "message": message, "hint": hint, "retryable": False}
    print(json.dumps({"ok": False, "skill": "contacts.search", "error": error, "events": 0}))
    sys.exit(exit_code)


def fits(name, query):
    words = name.lower().split()
    return all(any(word.startswith(part) for word in words) for part in query.lower().split())


def main():
    asked = json.load(sys.stdin)
    top = os.getcwd()
    path = os.path.realpath(os.path.join(top, asked["file"]))
    if not path.startswith(top + os.sep):
        fail("unsafe_path", 7, f"{asked['file']} leads out of the workspace")
    try:
        with open(path, encoding="utf-8") as book:
            people = json.load(book)
    except FileNotFoundError:
        fail("not_found", 3, f"there is no address book {asked['file']}", "write one: [{\"id\": \"C1\", \"name\": …, \"email\": …}]")
    except ValueError as error:
        fail("bad_book", 1, f"read {asked['file']}: {error}")
    print(json.dumps({"results": [p for p in people if fits(p["name"], asked["query"])]}))


if __name__ == "__main__":
    main()
