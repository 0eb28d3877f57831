package attest

import (
	"crypto/ed25519"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/spritekit/lattice/orchestrator/lattice"
)

const (
	base   = "1111111111111111111111111111111111111111"
	commit = "2222222222222222222222222222222222222222"
)

// verified returns a verification with the commands "a" and "b".
func verified(report string) lattice.Verification {
	return lattice.Verification{
		RunID: "run_1", CallID: "c1", Of: lattice.Attempt{Node: "verify", Visit: 1, Number: 1},
		Input: json.RawMessage(`{"base":"` + base + `","commands":[["a"],["b"]]}`), Report: json.RawMessage(report),
	}
}

const green = `{"status":"passed","base":"` + base + `","commit":"` + commit + `","tree":"3","restored":[],"commands":[{"argv":["a"],"status":"passed"},{"argv":["b"],"status":"passed"}]}`

func TestJudge(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ from, to, reason string }{
		"green":                {},
		"red command":          {`"b"],"status":"passed"`, `"b"],"status":"failed","failures":[{"id":"T","message":"m"}]`, `["b"]: failed: T: m`},
		"red status":           {`{"status":"passed"`, `{"status":"failed"`, "the verification ended with failed"},
		"other base":           {base, commit, "the report is about the base 222222222222, not 111111111111"},
		"other command":        {`["a"]`, `["true"]`, `["true"] was not to be run`},
		"missing command":      {`,{"argv":["b"],"status":"passed"}`, ``, `["b"] did not run`},
		"additional command":   {`{"argv":["b"],"status":"passed"}`, `{"argv":["b"],"status":"passed"},{"argv":["c"],"status":"passed"}`, `["c"] was not to be run`},
		"no commands":          {`{"argv":["a"],"status":"passed"},{"argv":["b"],"status":"passed"}`, ``, "no command ran"},
		"no commit":            {commit, "", "the report names no commit"},
		"no report":            {green, `[]`, "the report cannot be read"},
		"status in other case": {`"a"],"status":"passed"`, `"a"],"status":"PASSED"`, `["a"]: PASSED`},
	} {
		t.Run(name, func(t *testing.T) {
			p := Judge(verified(strings.Replace(green, test.from, test.to, 1)))
			if p.Reason != test.reason || (p.Verdict == Green) != (test.reason == "") {
				t.Errorf("Judge = %s, %q, want %q", p.Verdict, p.Reason, test.reason)
			}
		})
	}
}

// journal is a chain of the facts of a verification.
func journal(t *testing.T, key ed25519.PrivateKey, report string, change func(*lattice.Attested)) []lattice.Entry {
	t.Helper()
	v := verified(report)
	attested, err := Attest(key, v)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&attested)
	}
	chain := ""
	var all []lattice.Entry
	for i, f := range []lattice.Fact{lattice.RunStarted{RunID: v.RunID}, lattice.CallFinished{CallID: v.CallID, OK: true, Data: v.Report}, attested} {
		body, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		e := lattice.Entry{Run: v.RunID, Seq: lattice.Seq(i + 1), Kind: lattice.EntryFact, Type: f.FactType(), Body: body}
		e.Chain = lattice.Chain(chain, e)
		chain = e.Chain
		all = append(all, e)
	}
	return all
}

func newKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	key, err := LoadKey(filepath.Join(t.TempDir(), "signing.key"))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestCheck(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	public := key.Public().(ed25519.PublicKey)
	red := strings.Replace(green, `"b"],"status":"passed"`, `"b"],"status":"failed"`, 1)
	forge := func(from, to string) func(*lattice.Attested) { // changes the payload and keeps the signature
		return func(f *lattice.Attested) {
			var e Envelope
			if err := json.Unmarshal(f.Envelope, &e); err != nil {
				t.Fatal(err)
			}
			e.Payload = []byte(strings.Replace(string(e.Payload), from, to, 1))
			f.Envelope, _ = json.Marshal(e)
			f.Statement = e.Digest()
		}
	}
	resign := func(with ed25519.PrivateKey, v lattice.Verification) func(*lattice.Attested) {
		return func(f *lattice.Attested) {
			other, err := Attest(with, v)
			if err != nil {
				t.Fatal(err)
			}
			*f = other
		}
	}
	elsewhere := verified(green)
	elsewhere.RunID = "run_2"
	nowhere := verified(green)
	nowhere.CallID = "c2"
	for name, test := range map[string]struct {
		report  string
		change  func(*lattice.Attested)
		green   bool
		problem string
	}{
		"green":                    {report: green, green: true},
		"red":                      {report: red},
		"edited verdict":           {report: red, change: forge(`"verdict":"red"`, `"verdict":"green"`), problem: "not signed"},
		"edited commit":            {report: green, change: forge(commit, base), problem: "not signed"},
		"other key":                {report: green, change: resign(newKey(t), verified(green)), problem: "not signed"},
		"green for a red report":   {report: red, change: resign(key, verified(green)), problem: "does not support it"},
		"of another run":           {report: green, change: resign(key, elsewhere), problem: "about the run run_2"},
		"of a call that was never": {report: green, change: resign(key, nowhere), problem: "no report of the call c2"},
		"fact says green":          {report: red, change: func(f *lattice.Attested) { f.Green = true }, problem: "says otherwise"},
		"fact names another":       {report: green, change: func(f *lattice.Attested) { f.Statement = base }, problem: "another statement"},
		"no envelope":              {report: green, change: func(f *lattice.Attested) { f.Envelope = json.RawMessage(`[]`) }, problem: "cannot be read"},
		"no signature":             {report: green, change: func(f *lattice.Attested) { f.Envelope = json.RawMessage(`{"payloadType":"` + PayloadType + `"}`) }, problem: "not signed"},
		"other type":               {report: green, change: func(f *lattice.Attested) { f.Envelope = json.RawMessage(`{"payloadType":"text/plain"}`) }, problem: "of type"},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := Check(journal(t, key, test.report, test.change), public)
			if err != nil || len(all) != 1 {
				t.Fatalf("Check = %v, %v", all, err)
			}
			if all[0].Green() != test.green || !strings.Contains(all[0].Problem, test.problem) || (test.problem == "") != (all[0].Problem == "") {
				t.Errorf("Check = green %v, problem %q, want %v, %q", all[0].Green(), all[0].Problem, test.green, test.problem)
			}
		})
	}
}

func TestCheckFindsChangedJournals(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	public := key.Public().(ed25519.PublicKey)
	for name, change := range map[string]func([]lattice.Entry) []lattice.Entry{
		"changed fact": func(all []lattice.Entry) []lattice.Entry {
			all[1].Body = json.RawMessage(strings.Replace(string(all[1].Body), "passed", "failed", 1))
			return all
		},
		"removed fact": func(all []lattice.Entry) []lattice.Entry { return append(all[:1], all[2:]...) },
		"no chain":     func(all []lattice.Entry) []lattice.Entry { all[2].Chain = ""; return all },
		"doubled fact": func(all []lattice.Entry) []lattice.Entry { return append(all, all[2]) },
	} {
		if _, err := Check(change(journal(t, key, green, nil)), public); err == nil {
			t.Errorf("%s: Check found nothing", name)
		}
	}
}

// Equal verifications give equal facts, so that a repetition after a crash changes nothing.
func TestAttestIsDeterministic(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	a, err := Attest(key, verified(green))
	b, err2 := Attest(key, verified(green))
	if err != nil || err2 != nil || string(a.Envelope) != string(b.Envelope) || a.Statement != b.Statement {
		t.Errorf("Attest = %v, %v; %v, %v", a, err, b, err2)
	}
}

func TestLoadKey(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "signing.key")
	var keys [8]ed25519.PrivateKey
	var group sync.WaitGroup
	for i := range keys {
		group.Go(func() { keys[i], _ = LoadKey(path) })
	}
	group.Wait()
	for _, key := range keys {
		if !key.Equal(keys[0]) {
			t.Fatal("processes that make the key at the same time have different keys")
		}
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("left = %v, %v, want the key alone", left, err)
	}
	text, err := FormatPublic(keys[0].Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	if parsed, err := ParsePublic(text); err != nil || !parsed.Equal(keys[0].Public()) {
		t.Errorf("ParsePublic = %v, %v", parsed, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKey(path); err == nil {
		t.Error("a key that others may read is accepted")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", path); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKey(path); err == nil {
		t.Error("a link is accepted")
	}
}

// TestCheckNote: of the lines of a note, those count that the key signed and that are about the commit with its tree.
func TestCheckNote(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	line := func(key ed25519.PrivateKey, report string) string {
		signed, err := Attest(key, verified(report))
		if err != nil {
			t.Fatal(err)
		}
		return string(signed.Envelope)
	}
	red := strings.Replace(green, `"b"],"status":"passed"`, `"b"],"status":"failed"`, 1)
	lines := []string{"of others", line(newKey(t), green), line(key, red), line(key, green), line(key, strings.Replace(green, commit, base, 1)), line(key, strings.Replace(green, `"tree":"3"`, `"tree":"4"`, 1))}
	problems := []string{"cannot be read", "not signed", "", "", "about the commit " + base, "about the commit " + commit}
	for i, c := range CheckNote(lines, commit, "3", key.Public().(ed25519.PublicKey)) {
		if (c.Problem == "") != (problems[i] == "") || !strings.Contains(c.Problem, problems[i]) || c.Green() != (i == 3) || int(c.Seq) != i+1 {
			t.Errorf("line %d: %+v, want the problem %q", i+1, c, problems[i])
		}
	}
}
