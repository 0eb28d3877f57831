package skill_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// TestBadInput is what a call makes of everything that can be wrong around it: a sprite is full of programs that nobody
// vouches for, and each of them can write what the runtime reads. Every refusal has a code, an exit code and a hint; the
// work runs as often as the row says; and of the workspace and of what lies beside it nothing changes but the
// runtime's own records. kept names one of those that stays as it was planted.
func TestBadInput(t *testing.T) {
	const (
		ok      = `{"path":"a"}`
		outbox  = protocol.OutboxFile
		journal = protocol.CallsDir + "/c1.jsonl"
		resume  = protocol.ResumeFile
		waits   = protocol.ExitWaiting
	)
	event := func(message string) string {
		return `{"protocol_version":"v1","event_type":"INFO","sprite_id":"","work_item_id":"","timestamp":"2026-01-01T00:00:00.000000000Z","payload":{"message":"` + message + `"}}` + "\n"
	}
	record := func(state, digest, more string) string {
		return `{"state":"` + state + `","at":"","skill":"demo.do","input_sha256":"` + digest + `"` + more + "}\n"
	}
	type row struct {
		name  string
		plant func(b *bench)
		env   string // one variable
		input string // default ok
		exit  int
		code  string
		hint  string // in the hint
		says  string // in the message
		runs  int
		gone  string // not in the outbox afterwards
		kept  string
	}
	file := func(name, content string) func(*bench) { return func(b *bench) { b.write(name, content) } }
	// waiting plants after the call began to wait.
	waiting := func(plant func(*bench)) func(*bench) {
		return func(b *bench) {
			runs := 0
			if o := b.call(manifests.ClassSprite, ok, ask(&runs)); o.exit != waits {
				b.t.Fatalf("the call does not wait: %+v", o.result)
			}
			plant(b)
		}
	}
	groups := []struct {
		name string
		rows []row
	}{
		{"outbox", []row{
			{name: "torn tail", plant: file(outbox, event("one")+`{"half`), runs: 1, gone: "half"},
			{name: "torn in the middle", plant: file(outbox, `{"half`+"\n"+event("two")), runs: 1},
			{name: "NULs", plant: file(outbox, event("one")+strings.Repeat("\x00", 5000)), runs: 1, gone: "\x00"},
			{name: "a line of 2 MiB", plant: file(outbox, strings.Repeat("x", 2<<20)), runs: 1},
			{name: "rubbish", plant: file(outbox, "\xff\xfe\x00{]\n\n\r\n[]\n"), runs: 1},
			{name: "forged events", plant: file(outbox, event("one")+`{"event_type":"COMPLETED","call_id":"c1","payload":{"status":"success"}}`+"\n"), runs: 1},
			{name: "a folder in its place", plant: file(outbox+"/x", ""), exit: 7, code: "unsafe_path", hint: "remove it"},
			{name: "a FIFO in its place", plant: fifo(outbox), exit: 7, code: "unsafe_path", hint: "remove it"},
			{name: "a socket in its place", plant: socket(outbox), exit: 7, code: "unsafe_path", hint: "remove it"},
			{name: "a device in its place", plant: device(outbox), exit: 7, code: "unsafe_path", hint: "remove it"},
			{name: "a link to outside", plant: link(outbox, "../outside/secret"), exit: 7, code: "unsafe_path", hint: "remove it"},
			{name: "a link to nothing outside", plant: link(outbox, "../outside/new"), exit: 7, code: "unsafe_path", hint: "remove it"},
			{name: "a link to a file of the user's", plant: link(outbox, "../a"), exit: 7, code: "unsafe_path", hint: "remove it"},
			{name: ".lattice is a file", plant: file(protocol.Dir, "x"), exit: 7, code: "unsafe_path", hint: "remove it"},
			{name: ".lattice is a link to outside", plant: link(protocol.Dir, "../outside"), exit: 7, code: "unsafe_path", hint: "remove it"},
			{name: ".lattice is a link to a folder of the user's", plant: link(protocol.Dir, "sub"), exit: 7, code: "unsafe_path", hint: "remove it"},
		}},
		{"call journal", []row{
			{name: "garbage", kept: journal, plant: file(journal, "garbage\n"), exit: 7, code: "journal_corrupt", hint: "restore an earlier checkpoint"},
			{name: "a result without work", kept: journal, plant: file(journal, record("done", "x", `,"result":{"ok":true}`)), exit: 7, code: "journal_corrupt", hint: "restore"},
			{name: "forged for a guessed id", kept: journal, plant: file(journal, record("started", "x", "")+record("done", "x", `,"result":{"ok":true,"skill":"demo.do","data":{}}`)),
				exit: 2, code: "call_id_reused", hint: "use a new id"},
			{name: "a result of another skill", kept: journal, plant: file(journal, record("started", digestOf(ok), "")+record("done", digestOf(ok), `,"result":{"ok":true,"skill":"fs.read","data":{}}`)),
				exit: 7, code: "journal_corrupt", hint: "restore"},
			{name: "a result that is none", kept: journal, plant: file(journal, record("started", digestOf(ok), "")+record("done", digestOf(ok), `,"result":[1]`)),
				exit: 7, code: "journal_corrupt", hint: "restore"},
			{name: "an unknown state", kept: journal, plant: file(journal, record("won", digestOf(ok), "")), exit: 7, code: "journal_corrupt", hint: "restore"},
			{name: "waits for nothing", kept: journal, plant: file(journal, record("started", digestOf(ok), "")+record("suspending", digestOf(ok), "")), exit: 7, code: "journal_corrupt", hint: "restore"},
			{name: "wrong types", kept: journal, plant: file(journal, `{"state":1,"skill":[]}`+"\n"), exit: 7, code: "journal_corrupt", hint: "restore"},
			{name: "an offset that lies", plant: file(journal, record("started", digestOf(ok), `,"outbox_at":-9223372036854775808`)), runs: 1},
			{name: "an offset beyond the end", plant: file(journal, record("started", digestOf(ok), `,"outbox_at":9223372036854775807`)), runs: 1},
			{name: "huge", kept: journal, plant: file(journal, strings.Repeat("x", 17<<20)), exit: 7, code: "journal_corrupt", hint: "restore"},
			{name: "torn", plant: file(journal, record("started", digestOf(ok), "")+`{"state":"do`), runs: 1},
			{name: "a link to outside", plant: link(journal, "../../../outside/secret"), exit: 7, code: "unsafe_path", hint: "remove it"},
			{name: "a link to a file of the user's", plant: link(journal, "../../a"), exit: 7, code: "unsafe_path", hint: "remove it"},
			{name: "a folder in its place", plant: file(journal+"/x", ""), exit: 7, code: "unsafe_path", hint: "remove it"},
			{name: "a FIFO in its place", plant: fifo(journal), exit: 7, code: "unsafe_path", hint: "remove it"},
			{name: "a file for its folder", plant: file(protocol.CallsDir, ""), exit: 7, code: "unsafe_path", hint: "remove it"},
		}},
		{"resume", []row{
			{name: "garbage", kept: resume, plant: waiting(file(resume, "{")), exit: 2, code: "bad_resume", hint: "resume the run again"},
			{name: "no object", kept: resume, plant: waiting(file(resume, "[]")), exit: 2, code: "bad_resume", hint: "resume"},
			{name: "no checkpoint", kept: resume, plant: waiting(file(resume, `{"inputs":{}}`)), exit: 2, code: "bad_resume", hint: "resume"},
			{name: "wrong types", kept: resume, plant: waiting(file(resume, `{"checkpoint_id":1,"inputs":{}}`)), exit: 2, code: "bad_resume", hint: "resume"},
			{name: "inputs are a list", kept: resume, plant: waiting(file(resume, `{"checkpoint_id":"v1","inputs":[]}`)), exit: 2, code: "bad_resume", hint: "resume"},
			{name: "an input of a wrong type", kept: resume, plant: waiting(file(resume, strings.Replace(resumeFor("c1", "v1", true), `"ok":true`, `"ok":"yes"`, 1))),
				exit: 2, code: "bad_resume", hint: "resume"},
			{name: "an unknown input", kept: resume, plant: waiting(file(resume, strings.Replace(resumeFor("c1", "v1", true), `"ok":true`, `"nope":true`, 1))),
				exit: 2, code: "bad_input", hint: "", runs: 1},
			{name: "of another call", kept: resume, plant: waiting(file(resume, resumeFor("c0", "v1", true))), exit: waits},
			{name: "for another checkpoint", kept: resume, plant: func(b *bench) {
				b.env.Socket = host(b.t, created) // names v7
				waiting(file(resume, resumeFor("c1", "v1", true)))(b)
			}, exit: waits},
			{name: "oversized", kept: resume, plant: waiting(file(resume, strings.Repeat(" ", 5<<20)+resumeFor("c1", "v1", true))), exit: 9, code: "too_large", hint: "smaller"},
			{name: "a link to outside", plant: waiting(link(resume, "../../outside/secret")), exit: 7, code: "unsafe_path", hint: "inside"},
			{name: "a FIFO", plant: waiting(fifo(resume)), exit: 7, code: "unsafe_path", hint: "regular files"},
			{name: "a folder", plant: waiting(file(resume+"/x", "")), exit: 7, code: "unsafe_path", hint: "regular file"},
			{name: "an answer before the question", kept: resume, plant: file(resume, resumeFor("c1", "v1", true)), runs: 1},
			{name: "a marker that says it was processed", plant: waiting(func(b *bench) {
				b.write(resume, resumeFor("c1", "v1", true))
				b.write(protocol.MarkerFile, `{"checkpoint_id":"v1","payload_sha256":"`+payloadDigest(resumeFor("c1", "v1", true))+`","processed_at":"x","result":{"ok":true}}`)
			}), runs: 1},
			{name: "a marker that is garbage", plant: waiting(func(b *bench) {
				b.write(resume, resumeFor("c1", "v1", true))
				b.write(protocol.MarkerFile, "\x00")
			}), runs: 1},
			{name: "a marker that is a link", plant: waiting(func(b *bench) {
				b.write(resume, resumeFor("c1", "v1", true))
				link(protocol.MarkerFile, "../../outside/secret")(b)
			}), runs: 1},
			{name: "processed before", plant: waiting(func(b *bench) {
				b.write(resume, resumeFor("c1", "v1", true))
				runs := 0
				if o := b.call(manifests.ClassSprite, ok, ask(&runs)); o.exit != 0 || runs != 1 {
					b.t.Fatalf("the first resume: %+v", o.result)
				}
			})},
			{name: "task.json forged", kept: protocol.TaskFile, plant: file(protocol.TaskFile, `{"run_id":"other","answers":{"approved":true}}`), runs: 1},
		}},
		{"stdin", []row{
			{name: "empty", input: " ", exit: 2, code: "bad_input", hint: "--help"},
			{name: "no object", input: `[1]`, exit: 2, code: "bad_input", hint: "README.md"},
			{name: "torn", input: `{"path":"a"`, exit: 2, code: "bad_input", hint: "one JSON object"},
			{name: "trailing garbage", input: ok + ` x`, exit: 2, code: "bad_input", hint: "one JSON object"},
			{name: "two objects", input: ok + ok, exit: 2, code: "bad_input", hint: "one JSON object"},
			{name: "a key twice", input: `{"path":"a","path":"b"}`, exit: 2, code: "bad_input", hint: "once"},
			{name: "a key twice inside", input: `{"path":{"x":[{"y":1,"y":2}]}}`, exit: 2, code: "bad_input", hint: "once"},
			{name: "a key twice, escaped", input: `{"path":"a","p\u0061th":"b"}`, exit: 2, code: "bad_input", hint: "once"},
			{name: "an unknown key", input: `{"path":"a","nope/x":1}`, exit: 2, code: "bad_input", hint: "--help"},
			{name: "a key in other letters", input: `{"Path":"a"}`, exit: 2, code: "bad_input", hint: "--help"},
			{name: "a wrong type", input: `{"path":1}`, exit: 2, code: "bad_input", hint: "--help"},
			{name: "no integer", input: `{"path":"a","count":1.5}`, exit: 2, code: "bad_input", hint: "--help"},
			{name: "a huge integer", input: `{"path":"a","count":99999999999999999999}`, exit: 2, code: "bad_input", hint: "--help"},
			{name: "a huge number", input: `{"path":"a","count":1e999999999}`, exit: 2, code: "bad_input", hint: "--help"},
			{name: "too deep", input: `{"path":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}`, exit: 2, code: "bad_input", hint: "one JSON object"},
			{name: "far too deep", input: strings.Repeat(`{"a":`, 1<<20), exit: 2, code: "bad_input", hint: "one JSON object"},
			{name: "many elements below a long key", input: `{"path":{"` + strings.Repeat("k", 4<<20) + `":[` + strings.Repeat("1,", 2<<20) + `1]}}`, exit: 2, code: "bad_input", hint: "--help"},
			{name: "a key twice below others", input: `{"path":[{"x/y":[0,{"y":1,"y":2}]}]}`, exit: 2, code: "bad_input", hint: "once", says: "/path/0/x~1y/1/y"},
			{name: "too large", input: `{"path":"` + strings.Repeat("a", skill.MaxInput) + `"}`, exit: 9, code: "input_too_large", hint: "into a file"},
			{name: "no UTF-8", input: "{\"path\":\"\xff\"}", exit: 2, code: "bad_input", hint: "one JSON object"},
			{name: "UTF-16", input: "\xff\xfe{\x00}\x00", exit: 2, code: "bad_input", hint: "one JSON object"},
			{name: "NULs", input: "\x00\x00", exit: 2, code: "bad_input", hint: "one JSON object"},
			{name: "a NUL in a path", input: `{"path":"a\u0000b"}`, exit: 7, code: "unsafe_path", hint: "inside", runs: 1},
			{name: "a path of 5000 bytes", input: `{"path":"` + strings.Repeat("a", 5000) + `"}`, exit: 2, code: "name_too_long", hint: "255", runs: 1},
			{name: "a path to outside", input: `{"path":"../outside/secret"}`, exit: 7, code: "unsafe_path", hint: "inside", runs: 1},
		}},
		{"environment", []row{
			{name: "an input of a wrong type", env: "LATTICE_INPUT_COUNT=many", exit: 2, code: "bad_input", hint: "--help"},
			{name: "an input that is torn", env: `LATTICE_INPUT_COUNT={"x`, exit: 2, code: "bad_input", hint: "--help"},
			{name: "an input that nobody asked for", env: "LATTICE_INPUT_NOPE=1", runs: 1},
			{name: "an input of the announced length", env: "LATTICE_STDIN_BYTES=" + strconv.Itoa(len(ok)), runs: 1},
			{name: "an input that has not arrived", input: " ", env: "LATTICE_STDIN_BYTES=12", exit: 5, code: "input_cut", hint: "again"},
			{name: "an input that is cut off", env: "LATTICE_STDIN_BYTES=1200", exit: 5, code: "input_cut", hint: "again"},
			{name: "a call id that is a path", env: "LATTICE_CALL_ID=../../x", exit: 2, code: "bad_call_id", hint: "unset"},
			{name: "a call id without end", env: "LATTICE_CALL_ID=" + strings.Repeat("a", 129), exit: 2, code: "bad_call_id", hint: "unset"},
			{name: "a sprite of no text", env: "LATTICE_SPRITE_ID=\xff", exit: 2, code: "bad_environment", hint: "unset"},
			{name: "a work item of no text", env: "LATTICE_WORK_ITEM_ID=\xff", exit: 2, code: "bad_environment", hint: "unset"},
			{name: "permissions of rubbish", env: "LATTICE_PERMISSIONS=fs:reed,,;\x01, *x ,", exit: 4, code: "permission_denied", hint: "--allow"},
			{name: "permissions empty", env: "LATTICE_PERMISSIONS=", exit: 4, code: "permission_denied", hint: "--allow"},
			{name: "no workspace", env: "LATTICE_WORKSPACE=/no/such/folder", exit: 3, code: "no_workspace", hint: "LATTICE_WORKSPACE"},
			{name: "a workspace that is a file", env: "LATTICE_WORKSPACE=/dev/null", exit: 3, code: "no_workspace", hint: "LATTICE_WORKSPACE"},
		}},
	}
	for _, g := range groups {
		for _, r := range g.rows {
			t.Run(g.name+"/"+r.name, func(t *testing.T) {
				b := newBench(t, "LATTICE_PERMISSIONS=fs:read,git:push", r.env)
				b.dir = filepath.Join(t.TempDir(), "ws")
				if !strings.HasPrefix(r.env, "LATTICE_WORKSPACE=") {
					b.env.Workspace = b.dir
				}
				b.write("a", "hello")
				b.write("sub/x", "x")
				b.write("../outside/secret", "secret")
				if r.plant != nil {
					r.plant(b)
				}
				before, runs := b.files(), 0
				o := b.call(manifests.ClassSprite, cmp.Or(r.input, ok), reader(&runs))
				if o.exit != r.exit || runs != r.runs {
					t.Errorf("exit %d, ran %d times, %+v; want %d, %d times", o.exit, runs, o.result, r.exit, r.runs)
				}
				switch e := o.result.Error; {
				case r.code == "" && e != nil, r.code != "" && (e == nil || e.Code != r.code):
					t.Errorf("fault %+v, want code %q", e, r.code)
				case e != nil && (e.Hint == "" && r.hint != "" || !strings.Contains(e.Hint, r.hint)):
					t.Errorf("hint %q, want one with %q", e.Hint, r.hint)
				case e != nil && !strings.Contains(e.Message, r.says):
					t.Errorf("message %q, want one with %q", e.Message, r.says)
				}
				after := b.files()
				for name := range maps.Keys(after) {
					if _, was := before[name]; !was && !strings.HasPrefix(name, "ws/"+protocol.Dir) {
						t.Errorf("%s was made", name)
					}
				}
				for name, was := range before {
					own := strings.HasPrefix(name, "ws/"+protocol.Dir) && name != "ws/"+r.kept
					if after[name] != was && !own {
						t.Errorf("%s was changed to %.100q", name, after[name])
					}
				}
				if r.gone != "" && strings.Contains(after["ws/"+outbox], r.gone) {
					t.Errorf("the outbox still holds %q", r.gone)
				}
			})
		}
	}
}

// reader reads the file that its input names; resumed it takes the answer.
func reader(runs *int) skill.Func {
	return func(_ context.Context, c *skill.Call) (skill.Result, error) {
		*runs++
		if c.Resume != nil {
			var in struct{ OK bool }
			return skill.Result{}, c.Inputs(&in)
		}
		var in struct {
			Path  string
			Count int
		}
		if err := c.Bind(&in); err != nil {
			return skill.Result{}, err
		}
		data, err := c.Root.ReadFile(in.Path, 1<<10)
		return skill.Result{Data: map[string]string{"content": string(data)}}, err
	}
}

// files is the content of every file of the workspace and beside it; what is no regular file has its type for content.
func (b *bench) files() map[string]string {
	b.t.Helper()
	all := map[string]string{}
	base := filepath.Dir(b.dir)
	err := filepath.WalkDir(base, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(base, name)
		if err != nil {
			return err
		}
		if all[rel] = d.Type().String(); d.Type().IsRegular() {
			data, err := os.ReadFile(name)
			all[rel] = string(data)
			return err
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}

// at plants something other than a file.
func at(name string, plant func(full string) error) func(*bench) {
	return func(b *bench) {
		b.t.Helper()
		full := filepath.Join(b.dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			b.t.Fatal(err)
		}
		if err := os.RemoveAll(full); err != nil {
			b.t.Fatal(err)
		}
		if err := plant(full); errors.Is(err, syscall.EPERM) {
			b.t.Skipf("only root may make %s: %v", name, err)
		} else if err != nil {
			b.t.Fatal(err)
		}
	}
}

func fifo(name string) func(*bench) {
	return at(name, func(full string) error { return syscall.Mkfifo(full, 0o644) })
}

func device(name string) func(*bench) {
	return at(name, func(full string) error { return syscall.Mknod(full, syscall.S_IFCHR|0o666, 1<<8|3) }) // as /dev/null
}

func link(name, target string) func(*bench) {
	return at(name, func(full string) error { return os.Symlink(target, full) })
}

// socket binds a socket by a short name, because a long one does not fit, and moves it.
func socket(name string) func(*bench) {
	return func(b *bench) {
		at(name, func(full string) error {
			short, err := os.MkdirTemp("", "s")
			if err != nil {
				return err
			}
			defer os.RemoveAll(short)
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(short, "s"), Net: "unix"})
			if err != nil {
				return err
			}
			l.SetUnlinkOnClose(false)
			b.t.Cleanup(func() { l.Close() })
			return os.Rename(filepath.Join(short, "s"), full)
		})(b)
	}
}

// digestOf is what the journal calls an input by, defaults filled in.
func digestOf(input string) string {
	var members map[string]any
	if err := json.Unmarshal([]byte(input), &members); err != nil {
		panic(err)
	}
	members["count"] = 3
	raw, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	canonical, err := protocol.Canonical(raw)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(canonical))
}

func payloadDigest(resume string) string {
	var r protocol.Resume
	if err := json.Unmarshal([]byte(resume), &r); err != nil {
		panic(err)
	}
	digest, err := r.PayloadDigest()
	if err != nil {
		panic(err)
	}
	return digest
}
