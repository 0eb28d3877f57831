"""gmail.send: writes mail/<message id>.eml. The id comes from the idempotency key, so that a call made twice sends once."""
import hashlib
import json
import os
import sys
from email.message import EmailMessage


def fail(code, exit_code, message, hint=""):
    error = {"code": code, "message": message, "hint": hint, "retryable": False}
    print(json.dumps({"ok": False, "skill": "gmail.send", "error": error, "events": 0}))
    sys.exit(exit_code)


def attach(message, name):
    top = os.getcwd()
    path = os.path.realpath(os.path.join(top, name))
    if not path.startswith(top + os.sep):
        fail("unsafe_path", 7, f"{name} leads out of the workspace")
    if not os.path.isfile(path):
        fail("not_found", 3, f"there is no file {name} to attach")
    with open(path, "rb") as file:
        message.add_attachment(file.read(), maintype="application", subtype="octet-stream", filename=os.path.basename(path))


def main():
    asked = json.load(sys.stdin)
    if "@" not in asked["to"] or any(c in asked["to"] + asked["subject"] for c in "\r\n"):
        fail("bad_address", 2, "to is no address, or a line ends within to or subject")
    key = os.environ.get("LATTICE_IDEMPOTENCY_KEY") or json.dumps(asked, sort_keys=True)
    message_id = hashlib.sha256(key.encode()).hexdigest()[:24]
    message = EmailMessage()
    message["To"], message["Subject"], message["Message-ID"] = asked["to"], asked["subject"], f"<{message_id}@example>"
    message.set_content(asked["body"])
    for name in asked["attachments"]:
        attach(message, name)
    os.makedirs("mail", exist_ok=True)
    half, whole = os.path.join("mail", message_id + ".half"), os.path.join("mail", message_id + ".eml")
    with open(half, "wb") as file:
        file.write(bytes(message))
        file.flush()
        os.fsync(file.fileno())
    os.replace(half, whole)
    print(json.dumps({"message_id": message_id, "to": asked["to"]}))


if __name__ == "__main__":
    main()
