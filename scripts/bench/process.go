package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// build builds the measured programs: both binaries as they are released, /skills, and an empty program.
func build(ctx context.Context, dir string) error {
	empty := filepath.Join(dir, "empty.go")
	if err := os.WriteFile(empty, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		return err
	}
	for _, argv := range [][]string{
		{"make", "-s", "build", "BIN=" + dir},
		{"go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", filepath.Join(dir, "empty"), empty},
	} {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out)
		}
	}
	if out, err := exec.CommandContext(ctx, filepath.Join(dir, "spritekit"), "install", filepath.Join(dir, "skills")).CombinedOutput(); err != nil {
		return fmt.Errorf("install /skills: %w\n%s", err, out)
	}
	return nil
}

// contender is one of several commands that are run in turn.
type contender struct {
	name  string
	argv  []string
	stdin string // file
	env   []string
	seen  string // text that its output must hold, so that a failure does not count as fast

	before func() error // makes ready for a round, when it is not nil; does not count

	missing bool      // its program is not on this machine
	times   []float64 // seconds, one a round
	peak    float64   // MiB that it held at most, or one that it waited for: no less than its own
}

// race runs the contenders in turn, so many rounds after one that does not count.
func race(ctx context.Context, dir string, rounds int, all []*contender) error {
	for _, c := range all {
		_, err := exec.LookPath(c.argv[0])
		c.missing = err != nil
		if c.argv[0] == "bash" && !c.missing {
			_, err := exec.LookPath("jq")
			c.missing = err != nil
		}
	}
	for round := range rounds + 1 {
		for _, c := range all {
			if c.missing {
				continue
			}
			took, err := c.run(ctx, dir, round == 0)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if round > 0 {
				c.times = append(c.times, took.Seconds())
			}
		}
	}
	return nil
}

func (c *contender) run(ctx context.Context, dir string, check bool) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), c.env...)
	if c.before != nil {
		if err := c.before(); err != nil {
			return 0, err
		}
	}
	var out, stderr head
	if check {
		cmd.Stdout, cmd.Stderr = &out, &stderr
	}
	if c.stdin != "" {
		f, err := os.Open(c.stdin)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		cmd.Stdin = f
	}
	start := time.Now()
	err := cmd.Run()
	took := time.Since(start)
	if err == nil && check && !strings.Contains(string(out), c.seen) {
		err = fmt.Errorf("its output lacks %q", c.seen)
	}
	if err != nil {
		return 0, fmt.Errorf("%w\n%s", err, stderr)
	}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok && runtime.GOOS == "linux" {
		c.peak = max(c.peak, float64(usage.Maxrss)/1024) // KiB, there
	}
	return took, nil
}

// head keeps the beginning of an output. The system counts the peak memory of a process from that of the one that
// starts it, so this one has to stay small.
type head []byte

func (h *head) Write(p []byte) (int, error) {
	*h = append(*h, p[:min(len(p), 64<<10-len(*h))]...)
	return len(p), nil
}

// against is the median, over the rounds, of how many times longer c took than other.
func (c *contender) against(other *contender) float64 {
	var ratios []float64
	for i := range c.times {
		ratios = append(ratios, c.times[i]/other.times[i])
	}
	return median(ratios)
}

func median(of []float64) float64 {
	s := slices.Sorted(slices.Values(of))
	if len(s)%2 == 1 {
		return s[len(s)/2]
	}
	return (s[len(s)/2-1] + s[len(s)/2]) / 2
}

// python and jq programs that do the same as a skill, as a person would write them.
const (
	pythonRead = `import json,sys
i=json.load(sys.stdin)
print(json.dumps({"ok":True,"data":{"content":open(i["path"]).read()}}))`
	bashRead = `p=$(jq -r .path) && jq -n --rawfile c "$p" '{ok:true,data:{content:$c}}'`

	pythonParse = `import json,sys
P="LATTICE_EVENT "
for l in sys.stdin:
    l=l.rstrip("\n")
    if l.startswith(P): print(json.dumps({"kind":"event","event":json.loads(l[len(P):])}))
    else: print(json.dumps({"kind":"output","text":l}))`
	jqParse = `jq -cR 'if startswith("LATTICE_EVENT ") then {kind:"event",event:(.[14:]|fromjson)} else {kind:"output",text:.} end'`
)

func skillCall(ctx context.Context, dir string, rounds int) ([]figure, error) {
	if err := os.WriteFile(filepath.Join(dir, "small.txt"), []byte("the content\n"), 0o600); err != nil {
		return nil, err
	}
	input := filepath.Join(dir, "input.json")
	if err := os.WriteFile(input, []byte(`{"path":"small.txt"}`), 0o600); err != nil {
		return nil, err
	}
	skill := &contender{name: "/skills/fs.read", argv: []string{filepath.Join(dir, "skills", "fs.read")}, stdin: input,
		env: []string{"LATTICE_WORKSPACE=" + dir}, seen: "the content"}
	// The goal is about these two, so they alternate without the others: a python3 before each start of the skill would
	// empty the processor's caches for it, and not for the program after it.
	empty := &contender{name: "empty static Go binary", argv: []string{filepath.Join(dir, "empty")}}
	if err := race(ctx, dir, 3*rounds, []*contender{skill, empty}); err != nil {
		return nil, err
	}
	figures := []figure{figure{Name: "skill call: " + skill.name, Value: 1000 * median(skill.times), Unit: "ms",
		Ratio: skill.against(empty), Beside: empty.name}.atMost(skill.against(empty), 2)}
	alike := &contender{name: empty.name, argv: empty.argv}
	all := []*contender{alike,
		{name: "cat", argv: []string{"cat", "small.txt"}, seen: "the content"},
		{name: "bash + jq", argv: []string{"bash", "-c", bashRead}, stdin: input, seen: "the content"},
		{name: "python3", argv: []string{"python3", "-c", pythonRead}, stdin: input, seen: "the content"},
	}
	if err := race(ctx, dir, rounds, all); err != nil {
		return nil, err
	}
	return append(figures, others("skill call: ", "ms", alike, all, func(seconds float64) float64 { return 1000 * seconds })...), nil
}

// others are the figures of those that are only there to compare with.
func others(what, unit string, base *contender, all []*contender, value func(seconds float64) float64) []figure {
	var figures []figure
	for _, c := range all {
		f := figure{Name: what + c.name, Unit: unit}
		switch {
		case c.missing:
			f.Skipped = "not on this machine"
		case c == base:
			f.Value = value(median(c.times))
		default:
			f.Value, f.Ratio, f.Beside = value(median(c.times)), c.against(base), base.name
		}
		figures = append(figures, f)
	}
	return figures
}

func parseProcess(ctx context.Context, dir string, rounds int) ([]figure, error) {
	stream := filepath.Join(dir, "stream.txt")
	size, err := writeStream(stream)
	if err != nil {
		return nil, err
	}
	const seen = `"kind":`
	parse := &contender{name: "lattice protocol parse", argv: []string{filepath.Join(dir, "lattice"), "protocol", "parse"}, stdin: stream, seen: seen}
	all := []*contender{parse,
		{name: "cat", argv: []string{"cat"}, stdin: stream, seen: "LATTICE_EVENT"},
		{name: "bash + jq", argv: []string{"bash", "-c", jqParse}, stdin: stream, seen: seen},
		{name: "python3", argv: []string{"python3", "-c", pythonParse}, stdin: stream, seen: `"kind": `},
	}
	if err := race(ctx, dir, rounds, all); err != nil {
		return nil, err
	}
	return others("stream of output, to JSON: ", "MB/s", parse, all, func(seconds float64) float64 { return float64(size) / 1e6 / seconds }), nil
}

// writeStream writes a plausible output of a test run: lines of 40 to 120 bytes, one in 50 an event.
func writeStream(path string) (size int, err error) {
	const text = "=== RUN   TestSomething/with_a_name_of_usual_length --- PASS: TestSomething (0.03s) ok github.com/example/project/internal/thing"
	const event = `LATTICE_EVENT {"protocol_version":"v1","event_type":"INFO","event_id":"01KE0000000000000000000001","call_id":"call_abcdefghijklmnop",` +
		`"sprite_id":"main","work_item_id":"issue-7","timestamp":"2026-01-02T03:04:05.000000006Z",` +
		`"payload":{"message":"Running test suite (75% complete)","kind":"progress","metadata":{"percent":75,"phase":"test"}}}`
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	w := bufio.NewWriter(f)
	for i := 1; size < 16<<20; i++ {
		line := text[:40+i*37%81]
		if i%50 == 0 {
			line = event
		}
		n, _ := fmt.Fprintln(w, line) // Flush repeats its error
		size += n
	}
	if err := w.Flush(); err != nil {
		return 0, err
	}
	return size, f.Close()
}
