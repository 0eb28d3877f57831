package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// goBench runs Go benchmarks, whose files go below dir, and returns, for each by its name, the median of every metric.
func goBench(ctx context.Context, dir, pkg, pattern string, count int, flags ...string) (map[string]map[string]float64, error) {
	args := append([]string{"test", "-run", "^$", "-bench", pattern, "-count", strconv.Itoa(count), "-timeout", "30m"}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	// An interrupt must reach the benchmark as well, which is a child of go test.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%v: %w\n%s%s", cmd, err, out.String(), stderr.String())
	}
	return parseBench(out.String())
}

// parseBench reads lines such as "BenchmarkX/runs=1-8   100   12.5 ns/op   3 x-json".
func parseBench(text string) (map[string]map[string]float64, error) {
	all := map[string]map[string][]float64{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := fields[0]
		if i := strings.LastIndexByte(name, '-'); i > 0 { // GOMAXPROCS
			name = name[:i]
		}
		if all[name] == nil {
			all[name] = map[string][]float64{}
		}
		for i := 2; i+1 < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("read the benchmark's line %q: %w", line, err)
			}
			all[name][fields[i+1]] = append(all[name][fields[i+1]], v)
		}
	}
	medians := map[string]map[string]float64{}
	for name, metrics := range all {
		medians[name] = map[string]float64{}
		for unit, values := range metrics {
			medians[name][unit] = median(values)
		}
	}
	return medians, nil
}

func parser(ctx context.Context, dir string, count int) ([]figure, error) {
	// go test splits a pattern at its slashes, so that the two are asked for one after the other.
	output, err := goBench(ctx, dir, "./spritekit/protocol", "^BenchmarkOutputHeavy$/^Read$", count, "-benchtime", "100x")
	if err != nil {
		return nil, err
	}
	events, err := goBench(ctx, dir, "./spritekit/protocol", "^BenchmarkEventHeavy$", count, "-benchtime", "20x")
	if err != nil {
		return nil, err
	}
	heavy, event := output["BenchmarkOutputHeavy/Read"], events["BenchmarkEventHeavy"]
	if heavy == nil || event == nil {
		return nil, errors.New("the benchmarks OutputHeavy/Read and EventHeavy are not there")
	}
	gigabytes := heavy["MB/s"] / 1000
	return []figure{
		figure{Name: "parser, 1 event in 50 lines", Value: gigabytes, Unit: "GB/s", Ratio: heavy["x-bufio"],
			Beside: "a bufio.Scanner that only splits lines"}.atLeast(gigabytes, 1),
		figure{Name: "parser, 1 event in 50 lines", Value: heavy["GB/cpu-s"], Unit: "GB per second of CPU time"}.atLeast(heavy["GB/cpu-s"], 1),
		figure{Name: "parser, events only", Value: event["MB/s"], Unit: "MB/s", Ratio: event["x-json"],
			Beside: "encoding/json, same checks"}.atLeast(event["x-json"], 1.5),
		{Name: "parser, events only", Value: event["MB/s"], Unit: "MB/s", Ratio: event["x-json-unchecked"],
			Beside: "encoding/json into structs, no checks"},
	}, nil
}

func engine(ctx context.Context, dir, pattern string) ([]figure, error) {
	got, err := goBench(ctx, dir, "./orchestrator/engine", pattern, 1, "-benchtime", "1x")
	if err != nil {
		return nil, err
	}
	var figures []figure
	for _, size := range []struct {
		runs   int
		target float64
	}{{1, 0.60}, {8, 0.60}, {64, 0.35}} {
		m := got["BenchmarkEngine/runs="+strconv.Itoa(size.runs)]
		if m == nil {
			continue
		}
		figures = append(figures, figure{Name: fmt.Sprintf("engine, runs side by side: %d", size.runs), Value: m["steps/s"], Unit: "steps/s",
			Ratio: m["ratio"], Beside: fmt.Sprintf("the store alone, given the same appends (not the disk): %.0f/s", m["committer/s"])}.atLeast(m["ratio"], size.target))
	}
	if len(figures) == 0 {
		return nil, fmt.Errorf("the benchmarks %s are not there", pattern)
	}
	return figures, nil
}

// flows are whole flows of calls that do nothing, or start a process, one after another and many at once.
func flows(ctx context.Context, dir string, count int) ([]figure, error) {
	got, err := goBench(ctx, dir, "./orchestrator/engine", "^BenchmarkFlows$", count, "-benchtime", "1x")
	if err != nil {
		return nil, err
	}
	var figures []figure
	for _, call := range []string{"nothing", "process"} {
		for _, steps := range []int{1, 10, 100} {
			for _, runs := range []int{1, 8, 64} {
				m := got[fmt.Sprintf("BenchmarkFlows/%s/steps=%d/runs=%d", call, steps, runs)]
				if m == nil {
					return nil, errors.New("the benchmark Flows is not there")
				}
				of := fmt.Sprintf("flows of %d steps, %d at once", steps, runs)
				if call == "process" {
					of += ", a process each"
				}
				figures = append(figures, figure{
					Name: of, Value: m["steps/s"], Unit: "steps/s", Ratio: m["steps/s"] / m["disk/s"],
					Beside: fmt.Sprintf("the disk alone: %.0f/s; a step takes %.0f µs (p99 %.0f)", m["disk/s"], m["p50-us"], m["p99-us"]),
				})
			}
		}
	}
	return figures, nil
}

// sessionCall compares a call in a session with an echo over an exec's socket in the same sprite: the difference is
// the cost of orchestrator, protocol and skill. Elapsed time depends on the load of the machine, so the processor time of all
// processes, in and outside the sprite, is reported next to it.
func sessionCall(ctx context.Context, dir string, count int) ([]figure, error) {
	got, err := goBench(ctx, dir, "./orchestrator/session", "^BenchmarkCall$", count, "-benchtime", "1000x")
	if err != nil {
		return nil, err
	}
	m := got["BenchmarkCall"]
	if m == nil {
		return nil, errors.New("the benchmark Call is not there")
	}
	const allowance = 150 // µs beyond the echo
	return []figure{
		figure{Name: "fs.read in a session", Value: m["us/call"], Unit: "µs", Ratio: m["us/call"] / (m["us/echo"] + allowance),
			Beside: fmt.Sprintf("one WebSocket echo and %d µs: %.0f µs", allowance, m["us/echo"]+allowance)}.atMost(m["us/call"]/(m["us/echo"]+allowance), 1),
		figure{Name: "fs.read in a session, processor time", Value: m["cpu-us/echo"] + m["cpu-us/ontop"], Unit: "µs", Ratio: (m["cpu-us/echo"] + m["cpu-us/ontop"]) / (m["cpu-us/echo"] + allowance),
			Beside: fmt.Sprintf("one WebSocket echo and %d µs: %.0f µs; the session itself %.0f", allowance, m["cpu-us/echo"]+allowance, m["cpu-us/session"])}.atMost((m["cpu-us/echo"]+m["cpu-us/ontop"])/(m["cpu-us/echo"]+allowance), 1),
		{Name: "fs.read with an exec of its own", Value: m["us/exec"], Unit: "µs", Ratio: m["us/exec"] / m["us/call"], Beside: "the same in a session"},
	}, nil
}

func sizes(dir string) ([]figure, error) {
	var figures []figure
	for _, name := range []string{"spritekit", "spritekit-extra", "lattice", "empty"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		size := float64(info.Size()) / (1 << 20)
		f := figure{Name: "size: " + name, Value: size, Unit: "MiB"}
		switch name {
		case "spritekit":
			f = f.atMost(size, 8)
		case "spritekit-extra":
			f = f.atMost(size, 16)
		}
		figures = append(figures, f)
	}
	return figures, nil
}
