package main

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"go.etcd.io/bbolt"

	"github.com/spritekit/lattice/orchestrator/forge/forgetest"
	"github.com/spritekit/lattice/orchestrator/forge/hook"
)

// attack has attackers act at a code host in a script. It reports whether it knows the verb:
//
//	codehost bot NAME                    adds the account of a program
//	codehost rename OLD NEW              gives an account another name; another account may then take the old one
//	codehost describe USER NUMBER TEXT   changes the text of an issue; \u000a and the like stand for characters, also in comments
//	codehost edit USER TEXT              changes the last comment of the script
//	codehost tick USER                   ticks the first box of that comment
//	codehost delete USER                 deletes it
//	codehost copy USER NUMBER            comments with the text of the last question of lattice, and its marker
//	codehost flood USER NUMBER N TEXT    comments N times
//	codehost fork NUMBER                 has a pull request come from another repository
//	codehost unfork NUMBER               has it come from the repository again
//	codehost pushed USER                 delivers what a push to pull requests is, which the script made
//	codehost dismiss USER NUMBER         dismisses the last review of the script
//	codehost capture BODY HEADERS        writes the last delivery into two files, signed, for curl
func (h *codeHost) attack(ts *testscript.TestScript, args []string) bool {
	const site = "acme/site"
	switch rest := args[1:]; args[0] + " " + strings.Repeat("x", len(rest)) {
	case "bot x":
		h.AddUser(rest[0], "Bot")
	case "rename xx":
		h.Rename(rest[0], rest[1])
	case "describe xxx":
		h.EditIssue(site, rest[0], numberOf(ts, rest[1]), unescape(rest[2]))
	case "edit xx":
		h.EditComment(site, rest[0], h.comment, h.withDigest(rest[1]))
	case "tick x":
		h.EditComment(site, rest[0], h.comment, strings.Replace(h.said, "- [ ]", "- [x]", 1))
	case "delete x":
		h.DeleteComment(site, rest[0], h.comment)
	case "copy xx":
		h.said = h.question(ts)
		h.comment = h.Comment(site, rest[0], numberOf(ts, rest[1]), h.said)
	case "flood xxxx":
		for range numberOf(ts, rest[2]) {
			h.Comment(site, rest[0], numberOf(ts, rest[1]), rest[3])
		}
	case "fork x":
		h.MoveToFork(site, numberOf(ts, rest[0]), true)
	case "unfork x":
		h.MoveToFork(site, numberOf(ts, rest[0]), false)
	case "pushed x":
		h.Pushed(site, rest[0])
	case "dismiss xx":
		h.Dismiss(site, rest[0], numberOf(ts, rest[1]), h.reviewed)
	case "capture xx":
		all := h.Deliveries()
		d := all[len(all)-1]
		ts.Check(os.WriteFile(ts.MkAbs(rest[0]), d.Body, 0o600))
		ts.Check(os.WriteFile(ts.MkAbs(rest[1]), captured(d), 0o600))
	default:
		return false
	}
	return true
}

// captured returns the headers of a delivery.
func captured(d forgetest.Delivery) []byte {
	return fmt.Appendf(nil, "Content-Type: application/json\nX-GitHub-Event: %s\nX-GitHub-Delivery: %s\nX-Hub-Signature-256: sha256=%s\n",
		d.Event, d.GUID, hex.EncodeToString(hook.Sign("0123456789abcdef", d.Body)))
}

// unescape returns a text with the characters that \u000a, \u200b and the like stand for.
func unescape(s string) string {
	out := s
	for {
		at := strings.Index(out, `\u`)
		if at < 0 || at+6 > len(out) {
			return out
		}
		var r rune
		if _, err := fmt.Sscanf(out[at+2:at+6], "%04x", &r); err != nil {
			return out
		}
		out = out[:at] + string(r) + out[at+6:]
	}
}

// question returns the text of the last comment of lattice that asks with boxes.
func (h *codeHost) question(ts *testscript.TestScript) (text string) {
	for line := range strings.SplitSeq(h.Dump(), "\n") {
		_, quoted, found := strings.Cut(line, " by lattice: ")
		if !found || !strings.Contains(quoted, "- [ ]") {
			continue
		}
		if _, err := fmt.Sscanf(quoted, "%q", &text); err != nil {
			ts.Fatalf("the state of the code host has the line %s: %v", line, err)
		}
	}
	if text == "" {
		ts.Fatalf("lattice asks nothing:\n%s", h.Dump())
	}
	return text
}

// tamper changes a byte in an entry of the audit log, as a person can who writes the files of the store, and corrects its checksum:
//
//	tamper TEXT   changes the case of the first letter of TEXT in the first entry that holds it
func tamper(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: tamper TEXT")
	}
	db, err := bbolt.Open(filepath.Join(ts.Getenv("LATTICE_HOME"), "runs.db"), 0o600, nil)
	ts.Check(err)
	defer func() { ts.Check(db.Close()) }()
	ts.Check(db.Update(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket([]byte("audit"))
		for key, value := bucket.Cursor().First(); key != nil; key, value = next(bucket, key) {
			at := strings.Index(string(value), args[0])
			if at < 0 {
				continue
			}
			changed := []byte(string(value))
			changed[at] ^= 0x20
			sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
			_, _ = sum.Write([]byte("audit")) // a hash takes all
			_, _ = sum.Write(key)
			_, _ = sum.Write(changed[5:])
			binary.BigEndian.PutUint32(changed[1:], sum.Sum32())
			return bucket.Put(key, changed)
		}
		return fmt.Errorf("no entry holds %q", args[0])
	}))
}

func next(b *bbolt.Bucket, key []byte) (k, v []byte) {
	c := b.Cursor()
	c.Seek(key)
	return c.Next()
}
