package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const pageReaders = 100

// eventSkill prints a batch of 20 events and sleeps for 16 ms: about 1,000 a second.
const eventSkill = `#!/bin/sh
cat >/dev/null
i=0
while [ $i -lt %d ]; do
	i=$((i+1))
	for k in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do echo 'LATTICE_EVENT {"event_type":"INFO","payload":{"kind":"tick","message":"x"}}'; done
	sleep 0.016
done
echo '{"ok":true,"skill":"bench.events","data":{}}'
`

// page measures lattice serve while a sprite emits events that many readers follow, and then the page about this run.
func page(ctx context.Context, dir string, events, rounds int) (figures []figure, err error) {
	work, err := os.MkdirTemp(dir, "page-")
	if err != nil {
		return nil, err
	}
	for name, text := range map[string]string{
		"bench.events/skill.json": `{"name": "bench.events", "description": "Emits events.", "side_effect": "read"}`,
		"bench.events/run":        fmt.Sprintf(eventSkill, events/20),
		"flow.json":               `{"execir_version":"1.0","id":"events","entry_node":"a","nodes":[{"id":"a","op":"TOOL_CALL","tool":"bench.events","args":{}}],"edges":[]}`,
	} {
		path := filepath.Join(work, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
			return nil, err
		}
	}
	s := &servedPage{ctx: ctx, lattice: filepath.Join(dir, "lattice"), work: work}
	if err := s.start(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	before, err := s.memory("VmRSS:")
	if err != nil {
		return nil, err
	}
	run, began, err := s.startRun()
	if err != nil {
		return nil, err
	}
	waits, ended, err := s.readAll(run, events)
	if err != nil {
		return nil, err
	}
	used, err := s.processorTime()
	if err != nil {
		return nil, err
	}
	most, err := s.memory("VmHWM:")
	if err != nil {
		return nil, err
	}
	shown, size, err := s.timePage("/runs/"+run, rounds)
	if err != nil {
		return nil, err
	}
	slices.Sort(waits)
	p99 := milliseconds(waits[len(waits)*99/100])
	return []figure{
		{Name: fmt.Sprintf("events of a sprite, to each of %d readers", pageReaders), Value: float64(events) / ended.Sub(began).Seconds(), Unit: "events/s"},
		{Name: "an event, until a reader has it: median", Value: milliseconds(waits[len(waits)/2]), Unit: "ms"},
		figure{Name: "an event, until a reader has it: 99 %", Value: p99, Unit: "ms"}.atMost(p99, 100),
		{Name: "lattice serve, processor time for an event and a reader", Value: float64(used.Microseconds()) / float64(events*pageReaders), Unit: "µs"},
		{Name: "lattice serve, memory that this took at most", Value: float64(most-before) / (1 << 10), Unit: "MiB"},
		figure{Name: fmt.Sprintf("page of a run with %d events", events), Value: milliseconds(shown), Unit: "ms"}.atMost(milliseconds(shown), 100),
		{Name: "its size, not compressed", Value: float64(size) / (1 << 10), Unit: "KiB"},
	}, nil
}

// longestTask matches what TestGrowingLog and TestManyRuns say of the page's tasks.
var longestTask = regexp.MustCompile(`the longest task with [a-z ]+ took (\d+) ms, (\d+) ms of processor time`)

// longTasks measures the longest task of the page in Chromium while a log of 100,000 lines grows by 1,000 lines a second, and while
// 200 runs begin after 10,000.
func longTasks(ctx context.Context) (figures []figure, err error) {
	for _, on := range []struct{ test, what string }{{"TestGrowingLog", "a log that grows"}, {"TestManyRuns", "10,000 runs"}} {
		name := "the longest task of a page with " + on.what + ", processor time"
		if _, err := exec.LookPath("chromium"); err != nil {
			figures = append(figures, figure{Name: name, Skipped: "chromium is not installed"})
			continue
		}
		out, err := exec.CommandContext(ctx, "go", "test", "-count=1", "-run", "^"+on.test+"$", "-v", "./orchestrator").CombinedOutput()
		found := longestTask.FindSubmatch(out)
		if err != nil || found == nil {
			return nil, fmt.Errorf("%s: %w\n%s", on.test, errors.Join(err, ctx.Err()), out)
		}
		took, err := strconv.ParseFloat(string(found[2]), 64)
		if err != nil {
			return nil, err
		}
		figures = append(figures, figure{Name: name, Value: took, Unit: "ms"}.atMost(took, 50))
	}
	return figures, nil
}

// lookups measures what requests cost among 100 runs and among 100,000.
func lookups(ctx context.Context, dir string) (figures []figure, err error) {
	got, err := goBench(ctx, dir, "./orchestrator/leader", "^BenchmarkRequests$", 1, "-benchtime", "20x")
	if err != nil {
		return nil, err
	}
	for _, what := range []string{"runs", "waiting", "page"} {
		few, many := got["BenchmarkRequests/"+what+"/runs=100"], got["BenchmarkRequests/"+what+"/runs=100000"]
		if few == nil || many == nil {
			return figures, fmt.Errorf("the benchmark of %s is not there", what)
		}
		name := map[string]string{"runs": "the newest 100 runs", "waiting": "all that waits", "page": "the page of runs"}[what]
		figures = append(figures,
			figure{Name: name + " among 100,000 runs, keys that are read", Value: many["keys/op"], Unit: ""}.atMost(many["keys/op"], few["keys/op"]+100),
			figure{Name: name + " among 100,000 runs", Value: many["ns/op"] / 1e6, Unit: "ms"})
	}
	long, err := goBench(ctx, dir, "./orchestrator/leader", "^BenchmarkLongRun$", 1, "-benchtime", "20x")
	if err != nil {
		return figures, err
	}
	shown := long["BenchmarkLongRun"]["ns/op"] / 1e6
	if shown == 0 {
		return figures, errors.New("the benchmark of a long run is not there")
	}
	return append(figures, figure{Name: "page of a run with 10,000 facts", Value: shown, Unit: "ms"}.atMost(shown, 100)), nil
}

// growth measures what steps, looks and checkpoints cost as what is kept grows 10 and 100 times. The ratio is that to the smallest.
func growth(ctx context.Context, dir string) (figures []figure, err error) {
	got := map[string]float64{} // ms, by "what/of=size"
	for pkg, times := range map[string]string{"./orchestrator/store": "30x", "./orchestrator/host": "1x"} {
		all, err := goBench(ctx, dir, pkg, "^BenchmarkGrowth$", 1, "-benchtime", times)
		if err != nil {
			return nil, err
		}
		for name, metrics := range all {
			_, of, _ := strings.Cut(name, "/")
			for unit, value := range metrics {
				if inner, ok := strings.CutPrefix(unit, "ms/"); ok {
					got[inner] = value
				} else if unit == "ns/op" && of != "" {
					got[of] = value / 1e6
				}
			}
		}
	}
	for _, row := range []struct{ key, name, of string }{
		{"step/events", "a step of a run", "events"}, {"newest/events", "the newest 100 entries of a run", "events"},
		{"begin/runs", "a new run", "runs"}, {"recent/runs", "the newest 100 runs", "runs"},
		{"checkpoint/checkpoints", "a checkpoint of a sprite", "checkpoints"}, {"restore/checkpoints", "a restore", "checkpoints"},
		{"points/checkpoints", "the list of checkpoints", "checkpoints"},
		{"create/sprites", "a new sprite", "sprites"}, {"look/sprites", "a look at a sprite", "sprites"},
	} {
		least := map[bool]int{true: 1_000, false: 10}[row.of == "events" || row.of == "runs"]
		base := got[fmt.Sprintf("%s=%d", row.key, least)]
		for _, size := range []int{least, 10 * least, 100 * least} {
			value, ok := got[fmt.Sprintf("%s=%d", row.key, size)]
			if !ok {
				return figures, fmt.Errorf("the benchmark of %s among %d %s is not there", row.name, size, row.of)
			}
			f := figure{Name: fmt.Sprintf("%s, among %d %s", row.name, size, row.of), Value: value, Unit: "ms"}
			if size > least {
				f.Ratio = value / base
			}
			figures = append(figures, f)
		}
	}
	return figures, nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// servedPage is a lattice serve with a page, and a token for it.
type servedPage struct {
	ctx           context.Context
	lattice, work string
	server        *exec.Cmd
	url, token    string
}

func (s *servedPage) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.ctx, s.lattice, args...)
	cmd.Dir = s.work
	cmd.Env = append(os.Environ(), "LATTICE_HOME="+filepath.Join(s.work, "home"), "LATTICE_CONFIG=", "LATTICE_STORE=", "SPRITES_API_URL=", "SPRITES_TOKEN=")
	return cmd
}

// output runs a command of lattice, and returns what it prints.
func (s *servedPage) output(args ...string) ([]byte, error) {
	cmd := s.command(args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("lattice %s: %w\n%s", strings.Join(args, " "), err, said.String())
	}
	return out, nil
}

func (s *servedPage) start() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return err
	}
	s.url = "http://" + address
	s.server = s.command("serve", "--http", address, "--log", filepath.Join(s.work, "serve.log"))
	s.server.Cancel = func() error { return s.server.Process.Signal(syscall.SIGTERM) }
	out, err := s.server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.server.Start(); err != nil {
		return err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // it prints a line when it leads
		return errors.Join(fmt.Errorf("lattice serve did not start: %w", err), s.stop())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the process
	var made struct{ Token string }
	raw, err := s.output("token", "create", "bench", "--json")
	if err == nil {
		err = json.Unmarshal(raw, &made)
	}
	s.token = made.Token
	if err != nil {
		return errors.Join(err, s.stop())
	}
	return nil
}

func (s *servedPage) stop() error {
	_ = s.server.Process.Signal(syscall.SIGTERM) // it may have ended
	if err := s.server.Wait(); err != nil && s.ctx.Err() == nil {
		return fmt.Errorf("lattice serve: %w", err)
	}
	return nil
}

// memory returns a value of the process's status in KiB.
func (s *servedPage) memory(key string) (int, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.server.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(raw), key)
	value, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	return strconv.Atoi(value)
}

// processorTime returns the processor time that lattice serve took so far.
func (s *servedPage) processorTime() (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.server.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	const user, system, hertz = 11, 12, 100 // utime and stime, in ticks
	ticks := 0
	for _, at := range []int{user, system} {
		n, err := strconv.Atoi(fields[at])
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / hertz, nil
}

func (s *servedPage) startRun() (id string, began time.Time, err error) {
	began = time.Now()
	raw, err := s.output("run", "flow.json", "--skill", "bench.events", "--detach", "--json")
	var view struct {
		RunID string `json:"run_id"`
	}
	if err == nil {
		lines := bytes.Split(bytes.TrimSpace(raw), []byte("\n"))
		err = json.Unmarshal(lines[len(lines)-1], &view)
	}
	return view.RunID, began, err
}

// readAll has all readers read the events of a run, and returns how long each event took to each of them, and when the last was there.
func (s *servedPage) readAll(run string, events int) (waits []time.Duration, ended time.Time, err error) {
	var mu sync.Mutex
	var readers sync.WaitGroup
	for range pageReaders {
		readers.Go(func() {
			own, failed := s.read(run, events)
			mu.Lock()
			defer mu.Unlock()
			waits, ended, err = append(waits, own...), time.Now(), errors.Join(err, failed)
		})
	}
	readers.Wait()
	return waits, ended, err
}

func (s *servedPage) read(run string, events int) (waits []time.Duration, err error) {
	req, err := http.NewRequestWithContext(s.ctx, "GET", s.url+"/api/v1/runs/"+run+"/events?types=INFO", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for len(waits) < events && lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		_, rest, timed := strings.Cut(data, `"ts":"`)
		if !ok || !timed {
			continue
		}
		text, _, _ := strings.Cut(rest, `"`) // the readers share the processors with lattice serve, so they decode nothing else
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return nil, err
		}
		waits = append(waits, time.Since(at))
	}
	if len(waits) < events {
		return nil, fmt.Errorf("a reader got %d of %d events: %w", len(waits), events, errors.Join(lines.Err(), io.ErrUnexpectedEOF))
	}
	return waits, nil
}

// timePage returns the median time that a page takes, and its size in bytes.
func (s *servedPage) timePage(path string, rounds int) (time.Duration, int, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return 0, 0, err
	}
	client := &http.Client{Jar: jar}
	login, err := http.NewRequestWithContext(s.ctx, "POST", s.url+"/login", strings.NewReader(url.Values{"secret": {s.token}, "next": {"/"}}.Encode()))
	if err != nil {
		return 0, 0, err
	}
	login.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	login.Header.Set("Origin", s.url)
	resp, err := client.Do(login)
	if err != nil {
		return 0, 0, err
	}
	resp.Body.Close()
	var took []time.Duration
	size := 0
	for range rounds {
		begin := time.Now()
		resp, err := client.Get(s.url + path)
		if err != nil {
			return 0, 0, err
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || resp.Request.URL.Path != path {
			return 0, 0, fmt.Errorf("GET %s leads to %s with %s: %w", path, resp.Request.URL, resp.Status, errors.Join(err, s.ctx.Err()))
		}
		took, size = append(took, time.Since(begin)), len(body)
	}
	slices.Sort(took)
	return took[len(took)/2], size, nil
}
