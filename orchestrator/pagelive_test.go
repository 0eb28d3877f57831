package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"

	"golang.org/x/sync/errgroup"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/store"
)

// growing says 100,000 lines, waits for a person, and then says 1,000 lines a second for five seconds.
const growing = `{"execir_version":"1.0","id":"growing","entry_node":"old","nodes":[
	{"id":"old","op":"TOOL_CALL","tool":"say","args":{"text":"old"}}, {"id":"ask","op":"HUMAN","prompt":"Go on?"}, {"id":"new","op":"TOOL_CALL","tool":"say","args":{"text":"new"}}],
	"edges":[{"from":"old","to":"ask"},{"from":"ask","to":"new"}]}`

const sayManifest = `{"name":"say","description":"Says lines on standard error.","side_effect":"read","permissions":[],"inputs":[{"name":"text","type":"string","required":true,"description":"Which lines."}]}`

const saySkill = `#!/bin/sh
read -r input
case $input in
*old*) seq -f 'line %.0f of a long log' 100000 >&2 ;;
*) i=0; while [ $i -lt 5000 ]; do seq -f 'new line %.0f' $((i+1)) $((i+50)) >&2; i=$((i+50)); sleep 0.05; done ;;
esac
echo '{"ok":true,"skill":"say","data":{},"events":0}'
`

// TestGrowingLog follows a log in a real browser. make bench reads from it how long the longest task took.
func TestGrowingLog(t *testing.T) {
	p := newPage(t)
	p.serve()
	p.look(1280, 860, "light")
	p.login()
	p.followLog()
	p.check(p.url)
}

// fillStore makes a home with many runs that have ended.
func fillStore(t *testing.T, dir home.Home, runs int) {
	t.Helper()
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(dir.Store())
	if err != nil {
		t.Fatal(err)
	}
	var group errgroup.Group
	group.SetLimit(500) // they share commits
	for i := range runs {
		group.Go(func() error {
			id := fmt.Sprintf("run_%05d", i)
			r := store.RunRecord{ID: id, Created: time.Now(), Secret: make([]byte, 32), Program: []byte(shortFlow), Options: []byte(`{"flow_name":"short"}`)}
			if err := s.Create(t.Context(), r); err != nil {
				return err
			}
			_, err := s.Append(t.Context(), id, 0, []lattice.Entry{{Run: id, Kind: lattice.EntryState, Type: "State", Body: []byte(`{"status":"succeeded"}`), Flags: []string{lattice.FlagEnded}}})
			return err
		})
	}
	if err := errors.Join(group.Wait(), s.Close()); err != nil {
		t.Fatal(err)
	}
}

const shortFlow = `{"execir_version":"1.0","id":"short","entry_node":"a","nodes":[{"id":"a","op":"PACK","inputs":{"n":1}}]}`

// TestManyRuns: while hundreds of runs begin and end after 10,000, the list of runs shows the newest ones, and has as many elements
// as before. make bench reads from it how long the longest task took.
func TestManyRuns(t *testing.T) {
	p := newPage(t)
	dir := home.Home(filepath.Join(p.job.dir, "home"))
	fillStore(t, dir, 10_000)
	p.serve()
	p.look(1280, 860, "light")
	p.login()
	client, last := api.NewClient(dir.Socket()), ""
	start := func(n int) {
		t.Helper()
		for range n {
			v, err := client.Start(t.Context(), api.RunRequest{Detach: true, Flow: []byte(shortFlow)})
			if err != nil {
				t.Fatal(err)
			}
			last = v.RunID
		}
		p.wait(`document.querySelector('#live-runs a[href="/runs/` + last + `"]')?.closest("tr").innerText.includes("succeeded")`)
	}
	start(100)
	before := p.eval("String(document.querySelectorAll('*').length)")
	p.eval(`window.seen = 0; new MutationObserver(() => { seen = Math.max(seen, document.querySelectorAll("*").length) }).observe(document.body, { childList: true, subtree: true }); true`)
	p.layouts("many runs", p.trace(func() { start(200) }))
	if rows := p.eval("String(document.querySelectorAll('#live-runs tbody tr').length)"); rows != "50" {
		t.Errorf("the list has %s rows", rows)
	}
	if after := p.eval("String(document.querySelectorAll('*').length)"); after != before {
		t.Errorf("the page has %s elements, and had %s", after, before)
	}
	if seen := p.eval("String(seen > 50 && seen <= 2000)"); seen != "true" {
		t.Errorf("the page had %s elements", p.eval("String(seen)"))
	}
	p.check(p.url)
}

// countLog counts what a log does to the page: the most elements that it ever had, the most lines that one frame drew, and frames.
const countLog = `window.seen = { elements: 0, drawn: 0, draws: 0 };
new MutationObserver((all) => {
	seen.draws++;
	seen.elements = Math.max(seen.elements, document.querySelectorAll("*").length);
	seen.drawn = Math.max(seen.drawn, all.reduce((n, m) => n + [...m.addedNodes].filter((e) => e.classList?.contains("ln")).length, 0));
}).observe(document.getElementById("lines"), { childList: true, subtree: true }); true`

// followLog follows the log of a run that says 1,000 lines a second after 100,000. Whatever comes, the page has as many elements
// as fit the screen, draws no more than these at once, and reads each byte once.
func (p *page) followLog() {
	p.t.Helper()
	p.writeFile(filepath.Join(p.job.dir, "growing.json"), growing)
	p.writeFile(filepath.Join(p.job.dir, "say", "skill.json"), sayManifest)
	p.writeFile(filepath.Join(p.job.dir, "say", "run"), saySkill)
	p.job.sh(p.t, "chmod 755 say/run")
	_, out := p.job.lattice(p.t, 0, "", "run", "growing.json", "--skill", "say", "--detach")
	run := strings.TrimSpace(out)
	p.open(p.url + "/runs/" + run + "/log")
	p.wait("parseInt(document.querySelector('#size').innerText) >= 100000")
	p.eval(countLog)
	events := p.trace(func() {
		p.job.lattice(p.t, 0, "", "approve", run)
		p.wait("document.querySelector('#lines').innerText.includes('new line 5000')")
	})
	if elements := p.eval("String(seen.elements > 50 && seen.elements <= 2000)"); elements != "true" {
		p.t.Errorf("the page of a growing log had %s elements", p.eval("String(seen.elements)"))
	}
	if drawn := p.eval("String(seen.drawn > 10 && seen.drawn <= Math.ceil(lines.clientHeight / 20) + 60)"); drawn != "true" {
		p.t.Errorf("a frame drew %s lines", p.eval("String(seen.drawn)"))
	}
	read := p.eval("String(performance.getEntriesByType('resource').filter((e) => new URL(e.name).pathname.startsWith('/api/') && new URL(e.name).pathname.endsWith('/log')).reduce((n, e) => n + e.decodedBodySize, 0))")
	_, log := p.job.lattice(p.t, 0, "", "logs", run)
	if read != fmt.Sprint(len(log)) {
		p.t.Errorf("of a log of %d bytes the page read %s", len(log), read)
	}
	if shown := p.eval("document.querySelector('#lines').innerText"); !strings.Contains(shown, "new line 4999") {
		p.t.Errorf("the log shows %q", shown)
	}
	p.layouts("a long log", events)
	p.t.Logf("a log that grows by 1,000 lines a second was drawn in %s frames", p.eval("String(seen.draws)"))
}

// layouts checks that no layout in the trace of a page with something has more objects than the page may have, and tells the longest
// task.
func (p *page) layouts(with string, events []traceEvent) {
	p.t.Helper()
	layouts, longest := 0, traceEvent{}
	for _, e := range events {
		switch {
		case e.Name == "Layout":
			if layouts++; e.Args.BeginData.TotalObjects > 4000 { // elements and texts
				p.t.Errorf("a layout of %s has %d objects", with, e.Args.BeginData.TotalObjects)
			}
		case e.Name == "RunTask" && e.CPU > longest.CPU:
			longest = e
		}
	}
	if layouts == 0 {
		p.t.Errorf("none of %d events of the trace is a layout", len(events))
	}
	p.t.Logf("the longest task with %s took %.0f ms, %.0f ms of processor time", with, longest.Dur/1000, longest.CPU/1000)
}

// failingFlow has a step that is tried again until it fails.
const failingFlow = `{"execir_version":"1.0","id":"failing","tools":["exec.run"],"entry_node":"first","nodes":[
	{"id":"first","op":"TOOL_CALL","tool":"exec.run","args":{"command":"true"}},
	{"id":"flaky","op":"TOOL_CALL","tool":"exec.run","args":{"command":"exit 3"},"retry":[{"on":["tool_error"],"max_attempts":3,"interval_s":0.05}]},
	{"id":"never","op":"TOOL_CALL","tool":"exec.run","args":{"command":"true"}}],
	"edges":[{"from":"first","to":"flaky"},{"from":"flaky","to":"never"}]}`

// chooseCandidate looks at attempts side by side and keeps one with a click; the push that follows shows its change.
func (p *page) chooseCandidate() {
	p.t.Helper()
	p.writeFile(filepath.Join(p.job.dir, "tries.json"), `{"test_command":"sh check.sh","choose":true,"tries":[{"agent_command":["sh","-c","echo still broken >state"]},`+
		`{"agent_command":["sh","-c","echo fixed >state"]},{"agent_command":["sh","-c","exit 3"]}]}`)
	p.lattice(75, "run", "best-of-n", "--repo", "src", "--input-file", "tries.json")
	p.open(p.url + "/runs/latest/candidates")
	p.wait("document.querySelectorAll('.candidates section').length === 3")
	text := p.eval("document.querySelector('.candidates').innerText")
	for _, want := range []string{"1 of 1 failed", "0 of 1 failed", "+fixed", "+still broken", "http://", "the agent ended with code 3"} {
		if !strings.Contains(text, want) {
			p.t.Errorf("the candidates do not say %q: %s", want, text)
		}
	}
	p.candidates = p.eval("document.querySelector('.crumbs code').innerText")
	if forms := p.eval("document.querySelectorAll('.candidates form').length"); forms != "2" {
		p.t.Errorf("%s of the candidates can be kept, want those with a change", forms)
	}
	p.looks("runs/latest/candidates")
	p.leave("document.querySelectorAll('.candidates form button')[1].click()")
	p.wait("document.querySelector('button[value=approve]') && document.querySelector('.patch .plus').innerText.includes('+fixed')")
	p.looks("runs/latest")
	p.leave("document.querySelector('button[value=approve]').click()")
	p.status("succeeded")
	p.wait("document.querySelector('main').innerText.includes('\"try\": 1')")
}

// lattice runs a command that ends with a code.
func (p *page) lattice(code int, args ...string) {
	p.t.Helper()
	cmd := exec.Command(p.job.bin, args...)
	cmd.Dir, cmd.Env = p.job.dir, p.job.env
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != code {
		p.t.Fatalf("lattice %s ends with %d, want %d\n%s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), code, out)
	}
}

// fillLists has each list hold something: a loop, an intent, an artifact, a change of the environment, a delivery, a step that failed.
func (p *page) fillLists() {
	p.t.Helper()
	p.writeFile(filepath.Join(p.job.dir, "failing.json"), failingFlow)
	p.lattice(1, "run", "failing.json")
	p.open(p.url + "/runs/latest")
	p.wait("document.querySelector('.steps .selected')?.innerText.includes('flaky')") // the first failure is open
	if bars := p.eval("String(document.querySelectorAll('.steps .selected .b.failed').length)"); bars != "3" {
		p.t.Errorf("three attempts are %s bars", bars)
	}
	if lanes := p.eval("String(new Set([...document.querySelectorAll('.steps .selected .b.failed')].map((b) => b.getAttribute('y'))).size)"); lanes != "3" {
		p.t.Errorf("three attempts lie in %s lanes", lanes)
	}
	p.open(p.url + "/runs/latest/graph")
	p.wait("[...document.querySelectorAll('.list tr')].some((r) => r.innerText.includes('flaky') && r.innerText.includes('✗') && r.innerText.includes('failed')) && document.querySelector('.graph svg').textContent.includes('✗')")
	p.looks("runs/latest")
	p.looks("runs/latest/graph")
	p.lattice(0, "intent", "create", "sprite_task_exec", "--input", "command=echo done", "--subject", "a subject that is as long as people write them when nobody stops them")
	p.writeFile(filepath.Join(p.job.dir, "write.json"), `{"execir_version":"1.0","id":"write","entry_node":"w","nodes":[{"id":"w","op":"TOOL_CALL","tool":"fs.write","args":{"path":"out/a-report-with-a-name-that-is-longer-than-most-names-of-files.md","content":"report\n"}}]}`)
	p.lattice(0, "run", "write.json")
	p.writeFile(filepath.Join(p.job.dir, "spec.md"), "Make the check pass.\n")
	p.writeFile(filepath.Join(p.job.dir, "src", "agent.sh"), "cat >/dev/null; echo fixed >state; echo '{\"status\":\"DONE\",\"summary\":\"wrote the word\",\"tasks\":[{\"description\":\"the check passes\",\"passes\":true}]}'\n")
	p.job.sh(p.t, "git -C src add -A && git -C src commit -q -m agent")
	p.lattice(0, "loop", "start", "--repo", "src", "--spec", "spec.md", "--agent-command", "sh agent.sh", "--verify", "sh check.sh", "--name", "word", "--headless")
	p.writeFile(filepath.Join(p.job.dir, "propose.json"), `{"execir_version":"1.0","id":"propose","ctx_requires":["repo"],"tools":["git.clone","env.propose"],"entry_node":"clone","nodes":[
		{"id":"clone","op":"TOOL_CALL","tool":"git.clone","args":{"url":"$ctx.repo.bundle","dest":"$ctx.repo.path"}},
		{"id":"propose","op":"TOOL_CALL","tool":"env.propose","args":{"observed_failure":{"phase":"bootstrap","exit_code":127,"stderr_hint":"x"},"suggested_adjustment":{"type":"add_preinstall_step","details":{"argv":["true"]}},"confidence":1,"evidence":["sure"],"scope":"repo_specific"}}],
		"edges":[{"from":"clone","to":"propose"}]}`)
	p.lattice(0, "run", "propose.json", "--repo", "src")
	body := []byte(`{"action":"opened","issue":{"number":7,"title":"<b>"},"repository":{"full_name":"acme/site"},"sender":{"login":"ann"}}`)
	mac := hmac.New(sha256.New, []byte("hook-secret-of-the-test"))
	mac.Write(body)
	r, err := http.NewRequest("POST", p.url+"/hooks/main", bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "X-Github-Event": {"issues"}, "X-Github-Delivery": {"d-1"}, "X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))}}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		p.t.Errorf("the delivery is answered with %s", resp.Status)
	}
	p.open(p.url + "/loops")
	p.leave("document.querySelector('#live-loops a').click()")
	p.wait("document.querySelector('main').innerText.includes('wrote the word') && document.querySelector('main').innerText.includes('the check passes')")
	p.loop = strings.TrimPrefix(p.eval("location.pathname"), "/")
}

// useKeys works with the page by keys alone: to a page, along its lines, into a run, to the content, and out of the list of keys.
func (p *page) useKeys() {
	p.t.Helper()
	p.look(1280, 860, "light")
	p.open(p.url + "/waiting")
	p.eval("window.left = true")
	p.press("g")
	p.press("r")
	p.wait("!window.left && location.pathname === '/runs' && document.readyState === 'complete' && document.querySelector('[data-row]')")
	p.press("j")
	p.press("j")
	p.press("k")
	if at := p.eval("String([...document.querySelectorAll('[data-row]')].indexOf(document.activeElement))"); at != "0" {
		p.t.Errorf("j, j and k lead to line %s", at)
	}
	if ring := p.eval("getComputedStyle(document.activeElement).outlineStyle"); ring == "none" {
		p.t.Error("the line that has the keyboard is not marked")
	}
	p.eval("window.left = true")
	p.key("Enter", 13)
	p.wait("!window.left && document.readyState === 'complete' && location.pathname.startsWith('/runs/run_')")
	p.press("?")
	p.wait("document.getElementById('keys').open && document.getElementById('keys').contains(document.activeElement)")
	p.key("Escape", 27)
	p.wait("!document.getElementById('keys').open")
	p.open(p.url + "/runs")
	p.key("Tab", 9)
	if first := p.eval("document.activeElement.innerText"); first != "Skip to the content" {
		p.t.Errorf("the first stop of the keyboard is %q", first)
	}
	p.key("Enter", 13)
	p.wait("location.hash === '#main'")
	if moving := p.eval("String(document.getAnimations().filter((a) => a.playState === 'running').length)"); moving != "0" {
		p.t.Errorf("with reduced motion %s things move", moving)
	}
}

// key presses a key that is no character.
func (p *page) key(name string, code int) {
	p.t.Helper()
	press := map[string]any{"type": "rawKeyDown", "key": name, "code": name, "windowsVirtualKeyCode": code}
	if name == "Enter" {
		press["type"], press["text"] = "keyDown", "\r"
	}
	p.call("Input.dispatchKeyEvent", press)
	p.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": name, "code": name, "windowsVirtualKeyCode": code})
}

// TestPageKinds: each kind of page has a picture and a judgement of axe-core.
func TestPageKinds(t *testing.T) {
	kinds, err := filepath.Glob("dashboard/templates/*.html")
	if err != nil || len(kinds) < 20 {
		t.Fatalf("%d kinds of pages: %v", len(kinds), err)
	}
	for _, file := range kinds {
		if kind := strings.TrimSuffix(filepath.Base(file), ".html"); kind != "layout" && lookedAt[kind] == "" {
			t.Errorf("no test looks at pages of the kind %s", kind)
		}
	}
}
