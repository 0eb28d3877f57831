package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// visitedFlow asks a person twice, with a change of files between.
const visitedFlow = `{"execir_version":"1.0","id":"visit","entry_node":"note","nodes":[
	{"id":"note","op":"TOOL_CALL","tool":"fs.write","args":{"path":"notes","content":"one\n"}},
	{"id":"ask","op":"HUMAN","prompt":"<img src=x onerror=pwned=1><script>pwned=1</script> How many?","expected_inputs":{"count":"integer"},"outputs":{"count":"$vars.count"}},
	{"id":"more","op":"TOOL_CALL","tool":"fs.append","args":{"path":"notes","content":"two\n"}},
	{"id":"sign","op":"HUMAN","prompt":"Approve the change?"}],
	"edges":[{"from":"note","to":"ask"},{"from":"ask","to":"more"},{"from":"more","to":"sign"}],"output":{"count":"$vars.count"}}`

// hostileOutput is output of a skill that attacks a page or a terminal, and a line in colour.
var hostileOutput = strings.Join([]string{
	"\x1b[31mred\x1b[0m plain \x1b[1;38;5;46mbright\x1b[0m", `<script>pwned=1</script><img src=x onerror=pwned=1>`, `<iframe srcdoc="<script>parent.pwned=1</script>">`,
	"\x1b]8;;javascript:pwned=1\x07link\x1b]8;;\x07", "\x1b]52;c;cHduZWQ=\x07clip", "\x1b]1337;File=inline=1:aGk=\x07image", "\x1bPq#0\x1b\\six", "\x9b31mC1", "up\x1b[2J\x1b[1;1Hdown\x07",
	"\u202etxt.exe", "half \xf0\x9f\x98", "{{.}} ${pwned=1} javascript:pwned=1", "\x1b[", "\x1b]8;;http://evil.example/never ends",
}, "\n") + "\n"

// page is a leader that serves the page, and a browser.
type page struct {
	*browser
	t    *testing.T
	job  *job
	url  string
	stop func()

	candidates, loop string // the run with attempts side by side, and the path of the loop
	axe              string // axe-core, "" if it is not installed
}

// freePort returns a port that no other program gets by chance: it lies below those that systems give out.
func freePort(t *testing.T) int {
	t.Helper()
	for port := 20000 + os.Getpid()%10000; port < 32000; port++ {
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// serve starts lattice serve, and waits until it leads.
func (p *page) serve() {
	p.t.Helper()
	cmd := exec.Command(p.job.bin, "serve", "--json", "--http", strings.TrimPrefix(p.url, "http://"))
	cmd.Dir, cmd.Env = p.job.dir, p.job.env
	var said bytes.Buffer // it is complete when the process has ended
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.stop = func() {
		p.stop = func() {}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, out)
		err := cmd.Wait() // it was told to end
		if p.t.Failed() {
			p.t.Logf("lattice serve: %v\n%s", err, &said)
		}
	}
	var led struct{ HTTP string }
	if err := json.NewDecoder(out).Decode(&led); err != nil || led.HTTP != p.url {
		p.stop()
		p.t.Fatalf("lattice serve says %q: %v", led.HTTP, err)
	}
}

// newPage starts a browser for the page of a lattice that does not serve yet.
func newPage(t *testing.T) *page {
	p := &page{browser: startBrowser(t), t: t, job: newJob(t), url: fmt.Sprintf("http://127.0.0.1:%d", freePort(t)), stop: func() {}}
	t.Cleanup(p.job.remove)
	t.Cleanup(func() { p.stop() })
	p.writeFile(filepath.Join(p.job.dir, "visit.json"), visitedFlow)
	return p
}

// login begins a session with the link that lattice open prints.
func (p *page) login() {
	p.t.Helper()
	_, link := p.job.lattice(p.t, 0, "", "open")
	p.open(strings.TrimSpace(link))
	p.wait("location.pathname === '/runs' && document.querySelector('#live-runs')")
}

// TestPage has a person work with the page in a real browser: watch a live run, answer, approve, reject, rewind, fork and compare,
// while the server is restarted. Output of sprites executes nothing, and axe-core finds no serious fault.
func TestPage(t *testing.T) {
	began := time.Now()
	p := newPage(t)
	p.job.lattice(t, 0, "", "task", "init", "--code", "LAT")
	p.writeFile(filepath.Join(p.job.dir, "flows", "own.json"), editedFlow)
	p.writeFile(filepath.Join(p.job.dir, "config.toml"), "[forges.main]\nkind = \"github\"\nurl = \"http://127.0.0.1:9\"\ntoken_env = \"FORGE_TOKEN\"\nwebhook_secret_env = \"HOOK_SECRET\"\nrepositories = [\"acme/site\"]\n")
	p.job.env = append(p.job.env, "LATTICE_CONFIG="+filepath.Join(p.job.dir, "config.toml"), "FORGE_TOKEN=t", "HOOK_SECRET=hook-secret-of-the-test")
	if axe, err := os.ReadFile(filepath.Join(os.Getenv("LATTICE_NPM_CACHE"), "node_modules/axe-core/axe.min.js")); err == nil {
		p.axe = string(axe)
		p.call("Page.setBypassCSP", map[string]any{"enabled": true}) // axe-core makes styles
	}
	p.serve()
	p.look(1280, 860, "light")
	p.open(p.url + "/login")
	p.looks("login")
	p.login()
	for _, do := range []func(){p.answerAndApprove, p.goBack, p.workOnTasks, p.editFlow, p.readLog, p.chooseCandidate, p.fillLists, p.useKeys, p.checkLooks} {
		do()
		t.Log(time.Since(began).Round(10 * time.Millisecond))
	}
	if pwned := p.eval("typeof pwned"); pwned != "undefined" {
		t.Error("a script of a sprite ran in the page")
	}
	p.check(p.url)
}

// status waits until the run of the page has a status.
func (p *page) status(name string) {
	p.t.Helper()
	p.wait(fmt.Sprintf("document.querySelector('.head .chip')?.innerText.includes(%q)", name))
}

// answerAndApprove starts a run while its list is open, answers its question, and approves it after a restart of the server.
func (p *page) answerAndApprove() {
	p.t.Helper()
	_, out := p.job.lattice(p.t, 0, "", "run", "visit.json", "--keep", "--detach")
	run := strings.TrimSpace(out)
	p.wait("document.querySelector('#live-runs a[href=\"/runs/" + run + "\"]')")
	p.press("j")
	p.leave("document.activeElement.click()")
	p.wait("document.querySelector('[name=\"in.count\"]')")
	p.leave("document.querySelector('[name=\"in.count\"]').value = '3'; document.querySelector('button[value=answer]').click()")
	p.wait("document.querySelector('button[value=approve]') && document.querySelector('.steps').innerText.includes('sign')")
	p.eval("window.stays = true")
	p.stop()
	p.wait("!document.getElementById('offline').hidden")
	p.serve()
	p.job.lattice(p.t, 0, "", "approve", run)
	p.status("succeeded") // although the page was not there when it happened
	p.wait("document.getElementById('offline').hidden && window.stays")
	if steps := p.eval("[...document.querySelectorAll('.steps .name')].map((n) => n.innerText).join(' ')"); steps != "prepare note ask more sign" {
		p.t.Errorf("the steps are %s", steps)
	}
}

// goBack rewinds the run, rejects it then, forks it with a value changed, and compares.
func (p *page) goBack() {
	p.t.Helper()
	step := func(name string) {
		p.leave(fmt.Sprintf("[...document.querySelectorAll('.steps a')].findLast((a) => a.innerText.includes(%q)).click()", name))
	}
	step("more")
	p.browseFiles()
	step("more")
	p.openShell()
	step("more")
	p.leave("document.querySelector('form[action$=\"/rewind\"] button').click()")
	p.wait("document.querySelector('button[value=reject]')")
	if steps := p.eval("document.querySelector('.steps').innerText"); !strings.Contains(steps, "back to more#1") {
		p.t.Errorf("the steps after a rewind are %s", steps)
	}
	p.leave("document.querySelector('[name=comments]').value = 'not like this'; document.querySelector('button[value=reject]').click()")
	p.status("failed")
	run := p.eval("location.pathname")
	step("more")
	p.wait("document.querySelector('#values option[value=\"$vars.count\"]').textContent === '3'")
	p.leave("const f = document.querySelector('form[action$=\"/fork\"]'); f.path.value = '$vars.count'; f.value.value = '7'; f.querySelector('button').click()")
	p.wait("document.querySelector('button[value=approve]')")
	if p.eval("location.pathname") == run || !strings.Contains(p.eval("document.querySelector('.facts').innerText"), "Forked from") {
		p.t.Error("the fork has no page of its own")
	}
	p.leave("document.querySelector('button[value=approve]').click()")
	p.status("succeeded")
	p.wait("document.querySelector('main').innerText.includes('\"count\": 7')")
	fork := strings.TrimPrefix(p.eval("location.pathname"), "/runs/")
	p.open(p.url + run + "/compare?with=" + fork)
	p.wait("document.querySelector('main').innerText.includes('$vars.count') && [...document.querySelectorAll('tr')].some((r) => r.innerText.includes('sign') && r.innerText.includes('failed') && r.innerText.includes('differs'))")
	p.open(p.url + run + "/compare?from=more%231")
	p.wait("document.querySelector('main').innerText.includes('notes') && document.querySelector('.patch .plus').innerText.includes('+two')")
}

// browseFiles looks at the files of the chosen step, and then at those of the present.
func (p *page) browseFiles() {
	p.t.Helper()
	run := p.eval("location.pathname")
	p.leave("[...document.querySelectorAll('.places a')].find((a) => a.innerText === 'Files').click()")
	p.wait("document.querySelector('[name=at]').value === 'more#1'")
	p.leave("[...document.querySelectorAll('.list a')].find((a) => a.innerText === 'notes').click()")
	for at, want := range map[string]string{"more%231": "one\n", "": "one\ntwo\n"} {
		p.open(p.url + run + "/file?path=/workspace/notes&at=" + at)
		if text := p.eval("document.querySelector('.file').textContent"); text != want {
			p.t.Errorf("at %q the file is %q, want %q", at, text, want)
		}
	}
	p.open(p.url + run + "/file?path=/etc/none")
	p.wait("document.querySelector('.problem').innerText.includes('has no /etc/none')")
	p.open(p.url + run)
}

// openShell opens a shell where a step began, in a copy of the sprite that is removed when the page is left.
func (p *page) openShell() {
	p.t.Helper()
	run := p.eval("location.pathname")
	p.leave("[...document.querySelectorAll('.places a')].find((a) => a.innerText === 'Shell').click()")
	p.wait("document.getElementById('shell-state').innerText === 'The shell is open.'")
	for _, key := range "echo $((6*7)) $(cat notes)>made;cat made" {
		p.press(string(key))
	}
	p.call("Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"})
	p.wait("document.querySelector('.xterm-accessibility')?.innerText.includes('42 one')")
	_, list := p.job.lattice(p.t, 0, "", "sprite", "ls", "--json")
	if !strings.Contains(list, "-diff-") {
		p.t.Errorf("the shell has no copy of its own: %s", list)
	}
	p.open(p.url + run + "/files")
	if strings.Contains(p.eval("document.querySelector('.list').innerText"), "made") {
		p.t.Error("the shell changed the run")
	}
	for range 100 { // the copy is removed behind the answer
		if _, list = p.job.lattice(p.t, 0, "", "sprite", "ls", "--json"); !strings.Contains(list, "-diff-") {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if strings.Contains(list, "-diff-") {
		p.t.Errorf("the copy is left: %s", list)
	}
	p.open(p.url + run)
}

// workOnTasks creates a task on the board and moves it, while a command changes it as well.
func (p *page) workOnTasks() {
	p.t.Helper()
	p.open(p.url + "/tasks")
	p.leave("document.querySelector('[name=title]').value = 'Retry **uploads** <b>'; document.querySelector('form[action^=\"/tasks\"] button').click()")
	p.wait("document.querySelector('h1').innerText === 'Retry **uploads** <b>' && document.querySelector('.chip.attention')?.innerText.includes('Needs: review')")
	if moves := p.eval("document.querySelector('[name=status]').innerText"); strings.Contains(moves, "done") {
		p.t.Errorf("a task without a review may be moved to %s", moves)
	}
	p.leave("document.querySelector('[name=status]').value = 'review'; document.querySelector('[name=status]').form.querySelector('button').click()")
	p.wait("document.querySelector('.head').innerText.includes('review')")
	p.eval("window.stays = true")
	p.job.lattice(p.t, 0, "", "task", "attach", "LAT-1", "visit.json", "--role", "review", "--commit", "abc1234def")
	p.job.lattice(p.t, 0, "", "task", "comment", "LAT-1", "see [the log](https://example.org/log) and `x`\n- one\n- <img src=x onerror=pwned=1>")
	p.wait("document.querySelector('.md li') && document.querySelector('.chip.good')?.innerText.includes('Has: review @ abc1234') && window.stays")
	request := fmt.Sprintf(`{"id":"wq_1","task_id":%q,"worker":"CodeReviewLite","commit_sha":"abc1234def","created_at":"2026-01-02T03:04:05Z"}`, strings.TrimPrefix(p.eval("location.pathname"), "/tasks/"))
	p.writeFile(filepath.Join(p.job.dir, ".lattice", "queue", "wq_1.json"), request)
	p.open(p.url + "/workers")
	p.wait("document.querySelector('#live-workers').innerText.includes('pending') && document.querySelector('#live-workers').innerText.includes('LAT-1')")
}

// editedFlow is a flow with members and line ends that no editor would write.
const editedFlow = "{\r\n  \"execir_version\": \"1.0\", \"id\": \"own\", \"x-kept\":  [1.0,2e0],\n  \"input_schema\": {\"type\":\"object\",\"properties\":{\"who\":{\"type\":\"string\",\"description\":\"</textarea><img src=x onerror=pwned=1>\"},\"n\":{\"type\":\"integer\"}},\"required\":[\"who\"]},\r\n" +
	"  \"entry_node\": \"greet\",\n  \"nodes\": [\n    {\"id\": \"greet\", \"op\": \"PACK\", \"inputs\": {\"n\": \"$in.n\", \"to\": \"$in.who\"}, \"outputs\": {\"result\": \"$vars.said\"}}\n  ],\n  \"edges\": [], \"output\": \"$vars.said\"\n}"

// editFlow edits a flow: findings have their places, the graph follows, the file keeps every byte that was not edited, and the text
// that is shown runs.
func (p *page) editFlow() {
	p.t.Helper()
	file := filepath.Join(p.job.dir, "flows", "own.json")
	p.open(p.url + "/flows")
	p.leave("[...document.querySelectorAll('.list a')].find((a) => a.innerText === 'own').click()")
	p.wait("!document.getElementById('flow-text').readOnly && document.querySelector('.graph svg').textContent.includes('greet')")
	save := func(want string) {
		p.eval("document.getElementById('flow-place').innerText = ''; document.querySelector('#flow-save .primary').click()")
		p.wait("(document.getElementById('flow-place').innerText + document.getElementById('flow-problem').innerText).includes('" + want + "')")
	}
	replace := func(old, text string) {
		p.eval(fmt.Sprintf("{ const t = document.getElementById('flow-text'); t.value = t.value.replace(%q, %q); t.dispatchEvent(new Event('input')) }", old, text))
	}
	save("Saved") // without an edit
	replace("\"op\": \"PACK\"", "\"op\": \"PACKS\"")
	p.wait("document.querySelector('#live-findings').dataset.ok === 'false' && document.querySelector('#live-findings li').innerText.includes('op_unknown') && document.querySelector('.stale .graph')")
	if place := p.eval("document.querySelector('#live-findings li button').innerText"); place != "6:21" {
		p.t.Errorf("the finding is at %s", place)
	}
	p.eval("document.querySelector('#live-findings li button').click()")
	if chosen := p.eval("(() => { const t = document.getElementById('flow-text'); return t.value.slice(t.selectionStart, t.selectionEnd) })()"); chosen != "\"op\"" {
		p.t.Errorf("the finding leads to %q", chosen)
	}
	replace("\"op\": \"PACKS\"", "\"op\": \"PACK\"")
	replace("greet\", \"op\"", "hail\", \"op\"")
	replace("\"entry_node\": \"greet\"", "\"entry_node\": \"hail\"")
	p.wait("document.querySelector('#live-findings').dataset.ok === 'true' && document.querySelector('.graph svg').textContent.includes('hail') && !document.querySelector('.stale')")
	if text, err := os.ReadFile(file); err != nil || string(text) != editedFlow {
		p.t.Errorf("a text that was not edited is saved as %q: %v", text, err)
	}
	p.writeFile(file, "{}")
	save("has changed since")
	p.writeFile(file, editedFlow)
	save("Saved")
	edited := strings.NewReplacer("greet\", \"op", "hail\", \"op", "node\": \"greet", "node\": \"hail").Replace(editedFlow)
	if text, err := os.ReadFile(file); err != nil || string(text) != edited {
		p.t.Errorf("the edited text is saved as %q: %v", text, err)
	}
	replace("$vars.said\"}}", "$vars.told\"}}")
	replace("$vars.said\"\n}", "$vars.told\"\n}")
	p.eval("document.querySelector('#flow-run [name=\"in.who\"]').value = '5'; document.querySelector('#flow-run [name=\"in.n\"]').value = '7'")
	p.leave("document.querySelector('#flow-run .primary').click()")
	p.status("succeeded")
	p.wait("document.querySelector('main').innerText.includes('\"to\": \"5\"') && document.querySelector('main').innerText.includes('\"n\": 7')")
	if _, program := p.job.lattice(p.t, 0, "", "show", "--json"); !strings.Contains(program, "hail") {
		p.t.Errorf("the run is not of the text that was shown: %s", program)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != edited {
		p.t.Errorf("a run saved %q: %v", text, err)
	}
}

// readLog reads a log that is hostile and then long.
func (p *page) readLog() {
	p.t.Helper()
	p.open(p.url + "/runs")
	p.leave("document.querySelector('#live-runs a').click()")
	id := strings.TrimPrefix(p.eval("location.pathname"), "/runs/")
	file := filepath.Join(p.job.dir, "home", "runs", id, "output.log")
	p.writeFile(file, hostileOutput)
	p.open(p.url + "/runs/" + id + "/log")
	p.wait("document.querySelectorAll('#lines .ln').length >= 13")
	if red := p.eval("document.querySelector('#lines .f1')?.textContent"); red != "red" {
		p.t.Errorf("red is %s", red)
	}
	if made := p.eval("document.querySelectorAll('#lines :not(div, span, mark)').length"); made != "0" {
		p.t.Errorf("output made %s elements", made)
	}
	shown := p.eval("document.querySelector('#lines').innerText")
	for _, r := range shown {
		if r != '\n' && r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u202e' {
			p.t.Errorf("the log shows %U", r)
		}
	}
	if strings.Contains(shown, "evil.example") || !strings.Contains(shown, "<script>pwned=1</script>") {
		p.t.Errorf("the log is %q", shown)
	}
	var long strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&long, "\x1b[32mline %d\x1b[0m of a long log\n", i)
	}
	p.writeFile(file, long.String())
	events := p.trace(func() {
		p.open(p.url + "/runs/" + id + "/log")
		p.wait("document.querySelector('#size').innerText === '100000 lines' && document.querySelector('#lines').innerText.includes('line 99999')")
		p.press("/")
		p.eval("search.value = 'line 4321 '; search.dispatchEvent(new Event('input'))")
		p.wait("found.innerText === '1 found' && document.querySelector('#lines .hit').innerText.includes('line 4321')")
		p.eval("search.value = '9'; search.dispatchEvent(new Event('input'))")
		p.wait("found.innerText === '40951 found'")
	})
	if nodes := p.eval("String(document.querySelectorAll('*').length < 2000)"); nodes != "true" {
		p.t.Errorf("the page of a long log has %s elements", p.eval("String(document.querySelectorAll('*').length)"))
	}
	p.layouts("a long log", events)
}

// writeFile has a file hold a text.
func (p *page) writeFile(file, text string) {
	p.t.Helper()
	err := os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		err = os.WriteFile(file, []byte(text), 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// lookedAt names a page of each kind, by template. latest is a run that asks, LATEST its id, CANDIDATES one with attempts, LOOP a loop.
var lookedAt = map[string]string{
	"runs": "runs", "run-timeline": "runs/latest", "run-graph": "runs/latest/graph", "run-log": "runs/latest/log", "run-events": "runs/latest/events", "run-files": "runs/latest/files",
	"run-changes": "runs/CANDIDATES/changes", "run-candidates": "runs/CANDIDATES/candidates", "run-compare": "runs/CANDIDATES/compare?from=tries%231", "run-compare-runs": "runs/CANDIDATES/compare?with=LATEST",
	"run-shell": "runs/latest/shell?at=note%231", "waiting": "waiting", "tasks": "tasks", "task": "tasks/LAT-1", "workers": "workers", "loops": "loops", "loop": "LOOP", "flows": "flows", "flow": "flows/own",
	"intents": "intents", "proposals": "proposals", "artifacts": "artifacts", "cost": "cost", "sprites": "sprites", "audit": "audit", "deliveries": "deliveries", "error": "runs/run_none", "login": "login",
}

// checkLooks has axe-core judge a page of each kind, and keeps pictures of it.
func (p *page) checkLooks() {
	p.t.Helper()
	p.job.lattice(p.t, 0, "", "run", "visit.json", "--keep", "--detach")
	p.open(p.url + "/runs/latest")
	p.wait("document.querySelector('[name=\"in.count\"]')")
	latest := p.eval("document.querySelector('.crumbs code').innerText")
	for kind, path := range lookedAt {
		path = strings.NewReplacer("CANDIDATES", p.candidates, "LOOP", p.loop, "LATEST", latest).Replace(path)
		if kind == "login" {
			continue // looked at before the login
		}
		p.look(1280, 860, "light")
		p.open(p.url + "/" + path)
		if kind == "run-log" {
			p.wait("document.querySelector('#lines .ln, #lines .empty')")
		}
		if kind == "run-shell" {
			p.wait("document.querySelector('main').innerText.includes('The shell is open')")
		}
		if title := p.eval("document.title"); strings.HasPrefix(title, "Error") != (kind == "error") {
			p.t.Errorf("%s is the page %q: %s", path, title, p.eval("document.querySelector('main').innerText"))
		}
		p.looks(strings.NewReplacer(p.candidates, "candidates", p.loop, "loop", latest, "latest").Replace(path))
	}
	if p.axe == "" {
		p.t.Skip("axe-core is not installed")
	}
}

// looks has axe-core judge the page that is open, in both themes and at two widths, and keeps a picture of each if it is told where.
func (p *page) looks(path string) {
	p.t.Helper()
	for _, look := range []struct {
		width, height int
		theme         string
	}{{1280, 860, "light"}, {1280, 860, "dark"}, {390, 844, "light"}, {390, 844, "dark"}} {
		p.look(look.width, look.height, look.theme)
		p.eval("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(() => drawn(''))))") // after the page was told its size
		name := fmt.Sprintf("%s-%d-%s", strings.NewReplacer("/", "-", "?", "-", "=", "-", "%23", "-").Replace(path), look.width, look.theme)
		p.screenshot(os.Getenv("LATTICE_SCREENSHOTS"), name)
		if wide := p.eval(fmt.Sprintf("String(Math.max(innerWidth, document.documentElement.scrollWidth) > %d)", look.width)); wide == "true" {
			p.t.Errorf("%s is wider than its window", name)
		}
		if hidden := p.eval(`[...document.querySelectorAll("#menu > [aria-current], .tabs > [aria-current]")].filter((a) => {
			const at = a.getBoundingClientRect(), menu = a.parentElement.getBoundingClientRect();
			return at.left < menu.left - 1 || at.right > menu.right - (innerWidth < 700 ? 24 : 0) + 1 }).map((a) => a.innerText).join()`); hidden != "" {
			p.t.Errorf("%s does not show that it is %s", name, hidden)
		}
		if nameless := p.eval(`[...document.querySelectorAll(".list td:not([colspan])")].filter((td) => td.textContent &&
			getComputedStyle(td).display !== "table-cell" && getComputedStyle(td, "::before").content.trim() !== JSON.stringify(
				[...td.closest("table").querySelectorAll("th")][td.cellIndex]?.textContent + " ")).map((td) => td.outerHTML).join("\n")`); nameless != "" {
			p.t.Errorf("%s: cells below each other without the name of their column: %s", name, nameless)
		}
		if p.axe == "" {
			continue
		}
		if p.eval("typeof axe") == "undefined" {
			p.eval(p.axe + ";0")
		}
		found := p.eval(`(async () => {
			const r = await axe.run(document, { resultTypes: ["violations"] });
			return r.violations.filter((v) => v.impact === "serious" || v.impact === "critical").map((v) => v.id + ": " + v.nodes.map((n) => n.html + " " + n.failureSummary).join("; ")).join("\n") })()`)
		if found != "" {
			p.t.Errorf("%s: %s", name, found)
		}
	}
	p.look(1280, 860, "light")
}
