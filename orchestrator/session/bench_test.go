package session_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/host"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/session"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// BenchmarkCall makes, in turn, one fs.read in a session and one echo of a line over an exec of cat in the same sprite,
// which is what a round trip to a process there costs. Its metrics are the medians' stand-ins, the totals: us/echo,
// us/call, what a call takes on top of an echo, and for comparison a call with an exec of its own. Times that pass say as
// much about the moment as about the call, so processor time stands beside them: of all processes, this one (client and
// host) and those in the sprite (the session, or cat), for an echo, and for a call on top of that.
func BenchmarkCall(b *testing.B) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	host, err := host.Open(core.Config{Dir: b.TempDir(), Self: self, Skills: skillsDir, Log: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	server, transport := httptest.NewServer(host.Handler()), &http.Transport{}
	client := sprites.New(server.URL, "", &http.Client{Transport: transport})
	s := session.New(client, session.Options{Log: zerolog.Nop()})
	stdin, in := io.Pipe()
	stdout, out := io.Pipe()
	echoes := make(chan error, 1)
	b.Cleanup(func() {
		s.Close()
		in.Close()
		stdout.Close()
		if err := <-echoes; err != nil {
			b.Log(err)
		}
		transport.CloseIdleConnections()
		if err := host.Close(); err != nil {
			b.Error(err)
		}
		server.Close()
	})
	if _, err := client.Create(b.Context(), sprites.Create{Name: "s"}); err != nil {
		b.Fatal(err)
	}
	go func() {
		_, err := client.Exec(b.Context(), "s", sprites.Exec{Cmd: []string{"cat"}, Stdin: stdin, Stdout: out})
		echoes <- err
	}()
	lines := bufio.NewReader(stdout)
	echo := func() {
		if _, err := io.WriteString(in, "{\"path\":\"a\"}\n"); err != nil {
			b.Fatal(err)
		}
		if _, err := lines.ReadString('\n'); err != nil {
			b.Fatal(err)
		}
	}
	n := 0
	call := func(input string) {
		n++
		c := lattice.Call{ID: fmt.Sprint("call-", n), RunID: "r", WorkItem: "w", Sprite: "s", Skill: "fs.read", Class: manifests.ClassRead,
			Input: []byte(input), Permissions: []string{"fs:read"}, TimeoutS: 30}
		if out, err := s.Call(b.Context(), c, func(lattice.Event) {}); err != nil || !out.Result.OK {
			b.Fatalf("%+v, %v", out, err)
		}
	}
	write := lattice.Call{ID: "w", RunID: "r", WorkItem: "w", Sprite: "s", Skill: "fs.write", Class: manifests.ClassSprite,
		Input: []byte(`{"path":"a","content":"the content\n"}`), Permissions: []string{"fs:write"}, TimeoutS: 30}
	if out, err := s.Call(b.Context(), write, func(lattice.Event) {}); err != nil || !out.Result.OK {
		b.Fatalf("%+v, %v", out, err)
	}
	for range 200 { // whatever is done once, or grows at first
		echo()
		call(`{"path":"a"}`)
	}
	cat, serving := inSprite(b, "cat"), inSprite(b, "/skills/spritekit")
	var echoing, calling, alone time.Duration
	var cpu, began [2]time.Duration // of an echo, of a call
	began[0], began[1] = cat.used(), serving.used()
	for i := 0; b.Loop(); i++ {
		c0, t0 := cpuTime(), time.Now()
		echo()
		c1, t1 := cpuTime(), time.Now()
		call(`{"path":"a"}`)
		c2, t2 := cpuTime(), time.Now()
		echoing, calling = echoing+t1.Sub(t0), calling+t2.Sub(t1)
		cpu[0], cpu[1] = cpu[0]+c1-c0, cpu[1]+c2-c1
		if i%16 == 0 {
			call(` {"path":"a"}`) // no object at its first byte: it gets an exec of its own
			alone += time.Since(t2)
		}
	}
	per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(b.N) / 1000 }
	b.ReportMetric(per(echoing), "us/echo")
	b.ReportMetric(per(calling), "us/call")
	b.ReportMetric(per(calling-echoing), "us/ontop")
	b.ReportMetric(per(alone)*float64(b.N)/float64((b.N+15)/16), "us/exec")
	inside := [2]time.Duration{cat.used() - began[0], serving.used() - began[1]}
	b.ReportMetric(per(cpu[0]+inside[0]), "cpu-us/echo")
	b.ReportMetric(per(cpu[1]+inside[1]-cpu[0]-inside[0]), "cpu-us/ontop")
	b.ReportMetric(per(inside[1]), "cpu-us/session")
}

// process is a process in a sprite, by its id out here.
type process int

// inSprite finds the one process of that program that descends from this one.
func inSprite(b *testing.B, program string) process {
	b.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		b.Fatal(err)
	}
	for _, file := range all {
		line, err := os.ReadFile(file)
		name, _, _ := strings.Cut(string(line), "\x00")
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && name == program && descends(pid) {
			return process(pid)
		}
	}
	b.Fatalf("no process of %s is seen from here", program)
	return 0
}

// descends reports whether a process is a child of this one, or of one that is.
func descends(pid int) bool {
	for pid > 1 && pid != os.Getpid() {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		rest := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // its name may hold anything
		pid, _ = strconv.Atoi(rest[1])
	}
	return pid == os.Getpid()
}

// used is the processor time of its threads.
func (p process) used() (all time.Duration) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p)) // the pattern is good
	for _, thread := range threads {
		var ns int64
		if text, err := os.ReadFile(thread); err == nil {
			fmt.Sscan(string(text), &ns)
		}
		all += time.Duration(ns)
	}
	return all
}

// cpuTime is what this process, the orchestrator and the host, has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
