package host

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// benchSelf is the init of measured sandboxes: the program that LATTICE_BENCH_SELF names, as in daily life, or this test.
func benchSelf(b *testing.B) string {
	if given := os.Getenv("LATTICE_BENCH_SELF"); given != "" {
		return given
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	return self
}

func benchHost(b *testing.B) (*Host, *sprites.Client) {
	host, err := Open(core.Config{Dir: b.TempDir(), Self: benchSelf(b), Log: zerolog.Nop(), Reserve: -1, Network: core.Network{Preset: "none"}})
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
	return host, sprites.New(server.URL, "", &http.Client{Transport: transport})
}

// BenchmarkSandbox measures how long a sprite's sandbox takes until commands can run, of an init that the host keeps ready
// (ready) and without one (alone), and a command through the API: a WebSocket of its own, /bin/true, its exit. Beside them, each round, a plain fork and exec of /bin/true. Medians in
// milliseconds; x/ figures are medians of the rounds' ratios, which hold on a busy machine, too. cpu-ms/ figures are processor
// time of this process and of those that ended, hold there as well, and count making a sandbox and ending it.
func BenchmarkSandbox(b *testing.B) {
	host, client := benchHost(b)
	if _, err := client.Create(b.Context(), sprites.Create{Name: "s"}); err != nil {
		b.Fatal(err)
	}
	if _, err := client.Exec(b.Context(), "s", sprites.Exec{Cmd: []string{"/bin/true"}, Stdout: io.Discard}); err != nil {
		b.Fatal(err)
	}
	rec, err := host.core.Store.Sprite("s")
	if err != nil {
		b.Fatal(err)
	}
	times := map[string][]float64{}
	timed := func(unit string, do func() error) float64 {
		start := time.Now()
		if err := do(); err != nil {
			b.Fatal(err)
		}
		took := float64(time.Since(start)) / float64(time.Millisecond)
		times[unit] = append(times[unit], took)
		return took
	}
	for b.Loop() {
		time.Sleep(300 * time.Millisecond) // until the host has readied an init for the next sandbox
		fork := timed("ms/fork", func() error { return exec.Command("/bin/true").Run() })
		if err := host.runningSprite("s").Stop(); err != nil {
			b.Fatal(err)
		}
		if err := host.fleet.Furnish(rec.ID); err != nil {
			b.Fatal(err)
		}
		cfg, _, err := host.fleet.BoxConfig(rec)
		if err != nil {
			b.Fatal(err)
		}
		var box *sandbox.Box
		before := cpu(b)
		ready := timed("ms/ready", func() (err error) { box, err = host.fleet.StartSandbox(cfg); return err })
		box.Network().Close()
		if err := box.Stop(); err != nil {
			b.Fatal(err)
		}
		times["cpu-ms/box"] = append(times["cpu-ms/box"], cpu(b)-before)
		timed("ms/alone", func() (err error) { box, err = sandbox.Start(cfg); return err })
		box.Network().Close()
		if err := box.Stop(); err != nil {
			b.Fatal(err)
		}
		command := func() error {
			_, err := client.Exec(b.Context(), "s", sprites.Exec{Cmd: []string{"/bin/true"}, Stdout: io.Discard})
			return err
		}
		timed("ms/first", command) // wakes the sprite
		through := timed("ms/exec", command)
		times["x/ready"], times["x/exec"] = append(times["x/ready"], ready/fork), append(times["x/exec"], through/fork)
	}
	b.ReportMetric(0, "ns/op")
	for unit, all := range times {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], unit)
	}
}

// cpu is the processor time that this process and those that it waited for have used, in milliseconds.
func cpu(b *testing.B) (ms float64) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var used syscall.Rusage
		if err := syscall.Getrusage(who, &used); err != nil {
			b.Fatal(err)
		}
		ms += float64(used.Utime.Nano()+used.Stime.Nano()) / float64(time.Millisecond)
	}
	return ms
}

// BenchmarkIdle measures what an idle sprite costs whose sandbox lives: memory of its init (PSS, so that what all share counts
// once), init's threads, and the descriptors and threads of the host. 200 sprites, or as many as b.N asks for.
func BenchmarkIdle(b *testing.B) {
	host, client := benchHost(b)
	const n = 200
	fds, threads := len(entries(b, "/proc/self/fd")), len(entries(b, "/proc/self/task"))
	for i := range n {
		name := fmt.Sprintf("s%d", i)
		if _, err := client.Create(b.Context(), sprites.Create{Name: name}); err != nil {
			b.Fatal(err)
		}
		if _, err := client.Exec(b.Context(), name, sprites.Exec{Cmd: []string{"/bin/true"}, Stdout: io.Discard}); err != nil {
			b.Fatal(err)
		}
	}
	time.Sleep(2 * time.Second) // idle means that a moment has passed
	var pss, initThreads int
	for _, pid := range children(b) {
		kib, ok := pssOf(pid)
		if !ok {
			continue
		}
		pss, initThreads = pss+kib, initThreads+len(entries(b, "/proc/"+pid+"/task"))
	}
	for b.Loop() { // nothing is repeated: it is a count
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(pss)/1024/n, "MiB/sprite")
	b.ReportMetric(float64(initThreads)/n, "threads/init")
	b.ReportMetric(float64(len(entries(b, "/proc/self/fd"))-fds)/n, "fds/sprite")
	b.ReportMetric(float64(len(entries(b, "/proc/self/task"))-threads)/n, "threads/sprite")
	if len(host.fleet.Running()) != n {
		b.Errorf("%d sprites", len(host.fleet.Running()))
	}
}

func entries(b *testing.B, dir string) []os.DirEntry {
	all, err := os.ReadDir(dir)
	if err != nil {
		b.Fatal(err)
	}
	return all
}

// children lists this process's children.
func children(b *testing.B) (pids []string) {
	for _, task := range entries(b, "/proc/self/task") {
		list, err := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		if err == nil { // a thread that ended meanwhile
			pids = append(pids, strings.Fields(string(list))...)
		}
	}
	return pids
}

// pssOf is a process's share of memory in KiB. An ordinary user may not look into init, which hides.
func pssOf(pid string) (kib int, ok bool) {
	rollup, err := os.ReadFile("/proc/" + pid + "/smaps_rollup")
	if err != nil {
		return 0, false
	}
	for sc := bufio.NewScanner(bytes.NewReader(rollup)); sc.Scan(); {
		if n, _ := fmt.Sscanf(sc.Text(), "Pss: %d kB", &kib); n == 1 {
			return kib, true
		}
	}
	return 0, false
}
