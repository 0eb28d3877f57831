package session_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/session"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/sprites/local"
)

// BenchmarkCall makes, in turn, one fs.read in a session and one echo of a line over an exec of cat in the same sprite,
// which is what a round trip to a process there costs. Its metrics are the medians' stand-ins, the totals: us/echo,
// us/call, what a call takes on top of an echo, and for comparison a call with an exec of its own.
func BenchmarkCall(b *testing.B) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	host, err := local.Open(local.Config{Dir: b.TempDir(), Self: self, Skills: skillsDir, Log: zerolog.Nop()})
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
	echo()
	call(`{"path":"a"}`)
	var echoing, calling, alone time.Duration
	var cpu [3]time.Duration
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
	b.ReportMetric(per(cpu[1]-cpu[0]), "cpu-us/ontop")
}

// cpuTime is what this process, the orchestrator and the host, has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
