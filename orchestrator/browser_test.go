package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// browser is Chromium, spoken to over a pipe by its DevTools protocol. Its page is one tab.
type browser struct {
	t       *testing.T
	to      *os.File
	session string

	mu       sync.Mutex // guards all below
	next     int
	replies  map[int]chan browserReply
	problems []string // errors of scripts, and what the policy of content refused
	requests []string // URLs that the page asked for
	traced   []traceEvent
	complete bool // the trace
}

// traceEvent is an event of a trace. Times are in microseconds.
type traceEvent struct {
	Name string  `json:"name"`
	Dur  float64 `json:"dur"`
	CPU  float64 `json:"tdur"`
	Args struct {
		BeginData struct {
			TotalObjects int `json:"totalObjects"`
		} `json:"beginData"`
	} `json:"args"`
}

// trace returns the events that a trace of some work has.
func (b *browser) trace(work func()) []traceEvent {
	b.t.Helper()
	b.mu.Lock()
	b.traced, b.complete = nil, false
	b.mu.Unlock()
	b.call("Tracing.start", map[string]any{"traceConfig": map[string]any{"includedCategories": []string{"devtools.timeline", "disabled-by-default-devtools.timeline"}}})
	work()
	b.call("Tracing.end", nil)
	for end := time.Now().Add(browserPatience); ; time.Sleep(10 * time.Millisecond) {
		b.mu.Lock()
		events, complete := b.traced, b.complete
		b.mu.Unlock()
		if complete {
			return events
		}
		if time.Now().After(end) {
			b.t.Fatal("the trace does not end")
		}
	}
}

type browserReply struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// startBrowser starts Chromium, which ends with the test.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed")
	}
	read, in, err := os.Pipe() // what the browser reads
	if err != nil {
		t.Fatal(err)
	}
	out, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "chromium-")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-default-browser-check",
		"--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--mute-audio", "--hide-scrollbars", "--force-color-profile=srgb",
		"--user-data-dir="+dir, "about:blank")
	cmd.ExtraFiles = []*os.File{read, write}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = append(os.Environ(), "HOME="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read.Close()
	write.Close()
	b := &browser{t: t, to: in, replies: map[int]chan browserReply{}}
	listened := make(chan struct{})
	go func() {
		defer close(listened)
		b.listen(out)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // its processes, too
		_ = cmd.Wait()
		in.Close()
		<-listened
		out.Close()
		_ = os.RemoveAll(dir) // a process of its may write once more
	})
	var target struct {
		TargetID string `json:"targetId"`
	}
	b.into(&target, "Target.createTarget", map[string]any{"url": "about:blank"})
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	b.into(&attached, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true})
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(domain+".enable", nil)
	}
	return b
}

// listen reads replies and events until the browser ends.
func (b *browser) listen(out *os.File) {
	reader := bufio.NewReaderSize(out, 1<<20)
	for {
		message, err := reader.ReadBytes(0)
		if err != nil {
			return
		}
		var r browserReply
		if json.Unmarshal(message[:len(message)-1], &r) != nil {
			continue
		}
		b.mu.Lock()
		switch r.Method {
		case "":
			b.replies[r.ID] <- r
		case "Runtime.exceptionThrown":
			b.problems = append(b.problems, string(r.Params))
		case "Log.entryAdded":
			var entry struct {
				Entry struct{ Level, Text, URL, Source string } `json:"entry"`
			}
			_ = json.Unmarshal(r.Params, &entry)
			if e := entry.Entry; e.Level == "error" && e.Source != "network" {
				b.problems = append(b.problems, e.Text+" "+e.URL)
			}
		case "Tracing.dataCollected":
			var data struct{ Value []traceEvent }
			_ = json.Unmarshal(r.Params, &data)
			b.traced = append(b.traced, data.Value...)
		case "Tracing.tracingComplete":
			b.complete = true
		case "Network.requestWillBeSent":
			var sent struct {
				Request struct{ URL string } `json:"request"`
			}
			_ = json.Unmarshal(r.Params, &sent)
			b.requests = append(b.requests, sent.Request.URL)
		}
		b.mu.Unlock()
	}
}

// try sends a command and returns its result.
func (b *browser) try(method string, params any) (json.RawMessage, error) {
	b.mu.Lock()
	b.next++
	id, reply := b.next, make(chan browserReply, 1)
	b.replies[id] = reply
	b.mu.Unlock()
	message, err := json.Marshal(map[string]any{"id": id, "method": method, "params": params, "sessionId": b.session})
	if b.session == "" {
		message, err = json.Marshal(map[string]any{"id": id, "method": method, "params": params})
	}
	if err != nil {
		return nil, err
	}
	if _, err := b.to.Write(append(message, 0)); err != nil {
		return nil, err
	}
	select {
	case r := <-reply:
		if r.Error != nil {
			return nil, fmt.Errorf("%s: %s", method, r.Error.Message)
		}
		return r.Result, nil
	case <-time.After(browserPatience):
		return nil, fmt.Errorf("%s: the browser does not answer", method)
	}
}

// browserPatience bounds how long the test waits for anything.
const browserPatience = 60 * time.Second

func (b *browser) call(method string, params any) json.RawMessage {
	b.t.Helper()
	if params == nil {
		params = struct{}{}
	}
	result, err := b.try(method, params)
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

func (b *browser) into(v any, method string, params any) {
	b.t.Helper()
	if err := json.Unmarshal(b.call(method, params), v); err != nil {
		b.t.Fatal(err)
	}
}

// evaluate returns the value of an expression, or of its promise, as JSON.
func (b *browser) evaluate(expression string) (json.RawMessage, error) {
	raw, err := b.try("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true})
	if err != nil {
		return nil, err
	}
	var r struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, err
	}
	if r.Exception != nil {
		return nil, fmt.Errorf("%s: %s %s", expression, r.Exception.Text, r.Exception.Exception.Description)
	}
	return r.Result.Value, nil
}

// eval returns the value of an expression.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	value, err := b.evaluate(expression)
	if err != nil {
		b.t.Fatal(err)
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

// wait waits until an expression is true. A page that is left at that moment is asked again.
func (b *browser) wait(expression string) {
	b.t.Helper()
	for end := time.Now().Add(browserPatience); ; time.Sleep(20 * time.Millisecond) {
		value, err := b.evaluate("!!(" + expression + ")")
		if err == nil && string(value) == "true" {
			return
		}
		if time.Now().After(end) {
			text, _ := b.evaluate("location.href + '\\n' + document.body.innerText")
			b.t.Fatalf("never true: %s (%v)\n%s", expression, err, text)
		}
	}
}

// open goes to a page, and waits until it is there.
func (b *browser) open(url string) {
	b.t.Helper()
	b.eval("window.left = true")
	b.call("Page.navigate", map[string]any{"url": url})
	b.wait("!window.left && document.readyState === 'complete'")
}

// leave does what leads to another page, such as a click, and waits for that page.
func (b *browser) leave(expression string) {
	b.t.Helper()
	b.eval("window.left = true; " + expression)
	b.wait("!window.left && document.readyState === 'complete'")
}

// press types a key, as a person does.
func (b *browser) press(key string) {
	b.t.Helper()
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": key, "text": key})
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key})
}

// look sets the size of the window and the theme.
func (b *browser) look(width, height int, theme string) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": theme}, {"name": "prefers-reduced-motion", "value": "reduce"}}})
}

// screenshot keeps a picture of the page in a folder, if there is one.
func (b *browser) screenshot(dir, name string) {
	b.t.Helper()
	if dir == "" {
		return
	}
	var shot struct {
		Data string `json:"data"`
	}
	b.into(&shot, "Page.captureScreenshot", map[string]any{"format": "png"})
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), data, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// check fails the test if a script failed, or if the page asked for anything from elsewhere.
func (b *browser) check(origin string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		b.t.Errorf("the page has a problem: %s", p)
	}
	for _, url := range b.requests {
		if !strings.HasPrefix(url, origin) && url != "about:blank" {
			b.t.Errorf("the page asked for %s", url)
		}
	}
}
