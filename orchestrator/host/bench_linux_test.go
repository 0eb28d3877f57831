package host

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/layer"
	"github.com/spritekit/lattice/orchestrator/host/tree"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// BenchmarkCheckpoint measures through the API, on sprites with more and more files, what a client waits for: a checkpoint
// (and the answer that describes it), a restore of a sprite whose sandbox runs, a fork, a checkpoint between two sessions
// (one ends, the next has answered its first line), a checkpoint while a process runs, and one that is durable. Before each,
// 20 files change. Once, at first, the checkpoint is of a tree whose files are all new, and digest is how long the work goes on in
// the background after that. The metrics are medians in milliseconds; live is the time beside that of copying the same files alone.
// On the smallest tree, turn is a durable checkpoint while a process runs that has written 20,000 files of 6 kB, as npm install does, and layer
// one on a new layer.
//
// LATTICE_BENCH_BTRFS names a folder on btrfs; without it only overlays are measured.
func BenchmarkCheckpoint(b *testing.B) {
	for _, kind := range []layer.Kind{layer.Overlay, layer.Btrfs} {
		for _, files := range []int{1_000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/files=%d", kind, files), func(b *testing.B) { benchmarkCheckpoint(b, kind, files) })
		}
	}
}

func benchmarkCheckpoint(b *testing.B, kind layer.Kind, files int) {
	dir := b.TempDir()
	if kind == layer.Btrfs {
		on := os.Getenv("LATTICE_BENCH_BTRFS")
		if on == "" {
			b.Skip("LATTICE_BENCH_BTRFS names no folder on btrfs")
		}
		var err error
		if dir, err = os.MkdirTemp(on, "bench-"); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := core.RemoveAll(dir); err != nil {
				b.Error(err)
			}
		})
	}
	m := newMeasured(b, dir, kind)
	m.run(fmt.Sprintf("mkdir -p files; cd files; seq %d | split -l 1 -a 6 -d - f; i=0; for d in $(seq -w 0 %d); do mkdir $d; mv f*$d $d 2>/dev/null || true; done", files, 99))
	m.timed("ms/new", m.checkpoint)
	start := time.Now()
	m.host.core.Chores.Wait()
	m.times["ms/digest"] = []time.Duration{time.Since(start)}
	for b.Loop() {
		m.run("i=0; while [ $i -lt 20 ]; do echo $i >>changed$i; i=$((i+1)); done")
		id := m.timed("ms/create", m.checkpoint)
		m.run("true")
		m.timed("ms/restore", func() string { m.must(m.client.Restore(b.Context(), "s", id)); return "" })
		m.forks++
		m.timed("ms/fork", func() string {
			_, err := m.client.Fork(b.Context(), "s", id, fmt.Sprint("fork-", m.forks))
			m.must(err)
			return ""
		})
		m.must(m.client.Delete(b.Context(), fmt.Sprint("fork-", m.forks)))

		open := m.session()
		m.timed("ms/between", func() string {
			open.end()
			m.checkpoint()
			open = m.session()
			return ""
		})
		open.end()

		m.run("mkdir delta; i=0; while [ $i -lt 500 ]; do head -c 4096 /dev/zero >delta/$i; i=$((i+1)); done; (sleep 60 >/dev/null 2>&1 &)")
		m.timed("ms/live", m.checkpoint)
		m.timed("ms/copy", m.copyDelta)
		m.run("kill -9 -1 || true")
		m.run("rm -r delta")
		m.timed("ms/durable", func() string {
			_, err := m.client.CheckpointDurable(b.Context(), "s", "")
			m.must(err)
			return ""
		})
		m.forget()
	}
	if files == 1_000 {
		m.keepTurns("ms/turn", "mkdir node_modules; cd node_modules; head -c 120000000 /dev/zero | split -b 6000 -a 5 -d - f; for d in $(seq -w 0 199); do mkdir $d; mv f$d?? $d; done; test $(find . -type f | wc -l) = 20000")
		m.checkpoint()
		m.keepTurns("ms/layer", "true")
	}
	b.ReportMetric(0, "ns/op")
	for unit, times := range m.times {
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, unit)
	}
}

// BenchmarkGrowth measures a checkpoint, a restore and the list of checkpoints of a sprite that has had more and more of them, and a new
// sprite and a look at one among more and more sprites. The metrics are medians in milliseconds, by the number; it is run once.
func BenchmarkGrowth(b *testing.B) {
	m := newMeasured(b, b.TempDir(), layer.Overlay)
	m.run("seq 100 | split -l 1 - f")
	grow := func(of string, step, measure func()) {
		made := 0
		for _, size := range []int{10, 100, 1_000} {
			for ; made < size; made++ {
				step()
			}
			for range 15 {
				measure()
				made++
			}
			for what, times := range m.times {
				slices.Sort(times)
				b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, fmt.Sprintf("ms/%s/%s=%d", what, of, size))
			}
			clear(m.times)
		}
	}
	point := func() string { m.run("date +%N >>changed"); return m.checkpoint() }
	grow("checkpoints", func() { point() }, func() {
		m.run("date +%N >>changed")
		id := m.timed("checkpoint", m.checkpoint)
		m.timed("restore", func() string { m.must(m.client.Restore(b.Context(), "s", id)); return "" })
		m.timed("points", func() string { _, err := m.client.Checkpoints(b.Context(), "s"); m.must(err); return "" })
	})
	sprite := func() string {
		m.forks++
		_, err := m.client.Create(b.Context(), sprites.Create{Name: fmt.Sprint("n", m.forks)})
		m.must(err)
		return ""
	}
	grow("sprites", func() { sprite() }, func() {
		m.timed("create", sprite)
		m.timed("look", func() string { _, err := m.client.Get(b.Context(), "s"); m.must(err); return "" })
	})
	b.ReportMetric(0, "ns/op")
}

// measured is a host with one sprite, and what was measured of it.
type measured struct {
	*testing.B
	host   *Host
	client *sprites.Client
	forks  int
	times  map[string][]time.Duration
}

func newMeasured(b *testing.B, dir string, kind layer.Kind) *measured {
	host, err := Open(core.Config{Dir: dir, Self: benchSelf(b), Log: zerolog.Nop(), Storage: kind, Reserve: -1})
	if err != nil {
		b.Fatal(err)
	}
	server, transport := httptest.NewServer(host.Handler()), &http.Transport{}
	b.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := host.Close(); err != nil {
			b.Error(err)
		}
		server.Close()
	})
	m := &measured{b, host, sprites.New(server.URL, "", &http.Client{Transport: transport}), 0, map[string][]time.Duration{}}
	_, err = m.client.Create(b.Context(), sprites.Create{Name: "s"})
	m.must(err)
	return m
}

func (m *measured) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

func (m *measured) timed(unit string, do func() string) string {
	start := time.Now()
	got := do()
	m.times[unit] = append(m.times[unit], time.Since(start))
	return got
}

func (m *measured) run(script string) {
	m.Helper()
	code, err := m.client.Exec(m.Context(), "s", sprites.Exec{Cmd: []string{"sh", "-c", script}, Dir: "/workspace"})
	if err != nil || code != 0 && !strings.Contains(script, "kill") {
		m.Fatalf("%s: %d, %v", script, code, err)
	}
}

func (m *measured) checkpoint() string {
	p, err := m.client.Checkpoint(m.Context(), "s", "")
	m.must(err)
	return p.ID
}

// keepTurns measures the checkpoints of an agent's turns while its process, which began with a script, runs.
func (m *measured) keepTurns(unit, script string) {
	m.run("(" + script + "); (sleep 600 >/dev/null 2>&1 &)")
	for range 5 {
		m.run("echo more >>changed0")
		m.timed(unit, func() string {
			p, err := m.client.CheckpointDurable(m.Context(), "s", "")
			m.must(err)
			return p.ID
		})
	}
	m.run("kill -9 -1 || true")
}

// copyDelta copies what a live checkpoint has to copy.
func (m *measured) copyDelta() string {
	rec, err := m.host.core.Store.Sprite("s")
	m.must(err)
	to := filepath.Join(m.host.core.TempDir(), "copy")
	m.must(tree.Copy(m.Context(), filepath.Join(m.host.layers.TreeDir(rec.Tree), "workspace", "delta"), to))
	m.StopTimer()
	m.must(tree.Remove(to))
	m.StartTimer()
	return ""
}

// forget keeps the sprite's list of checkpoints short.
func (m *measured) forget() {
	points, err := m.client.Checkpoints(m.Context(), "s")
	m.must(err)
	for i, p := range points {
		if i >= 3 && p.ID != "v1" {
			m.must(m.client.DeleteCheckpoint(m.Context(), "s", p.ID))
		}
	}
}

// opened is a session: a command that answers lines until its input ends.
type opened struct {
	*measured
	in    io.WriteCloser
	ended chan error
}

func (m *measured) session() *opened {
	stdin, in := io.Pipe()
	stdout, out := io.Pipe()
	o := &opened{m, in, make(chan error, 1)}
	go func() { // ends with its input; see end
		_, err := m.client.Exec(m.Context(), "s", sprites.Exec{Cmd: []string{"cat"}, Stdin: stdin, Stdout: out})
		out.CloseWithError(err)
		o.ended <- err
	}()
	if _, err := io.WriteString(in, "hello\n"); err != nil {
		m.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "hello\n" {
		m.Fatal(line, err)
	}
	return o
}

func (o *opened) end() {
	o.must(o.in.Close())
	o.must(<-o.ended)
}
