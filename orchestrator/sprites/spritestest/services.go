package spritestest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

// serviceTests check services, and the ways to the ports of a sprite.
var serviceTests = map[string]func(env){
	"services run, tell, and stop for good": func(e env) {
		said := e.putService(sprites.Service{Name: "talk", Cmd: "sh", Args: []string{"-c", "echo out; echo err >&2; exec sleep 1000"}, Env: map[string]string{"A": "b"}}, 2)
		if said[0].Type != "started" || !slices.ContainsFunc(said, func(v sprites.ServiceEvent) bool { return v.Type == "stdout" && strings.TrimSpace(v.Data) == "out" }) {
			e.Errorf("events %+v", said)
		}
		s := e.getService("talk")
		if s.Cmd != "sh" || s.Env["A"] != "b" || s.State == nil || s.State.Status != "running" || s.State.PID < 1 {
			e.Errorf("service %+v, state %+v", s, s.State)
		}
		e.mustRun("grep -q out /.sprite/logs/services/talk.log")
		var types []string
		err := e.client.Services().Stop(e.ctx, e.name, "talk", 10*time.Second, sprites.ServiceCall{OnEvent: func(v sprites.ServiceEvent) error {
			types = append(types, v.Type)
			return nil
		}})
		if err != nil || !slices.Contains(types, "stopped") {
			e.Errorf("stop: %q, %v", types, err)
		}
		if s := e.getService("talk"); s.State.Status != "stopped" {
			e.Errorf("after the stop: %+v", s.State)
		}
		e.checkStatus(http.StatusConflict, e.client.Services().Stop(e.ctx, e.name, "talk", time.Second, sprites.ServiceCall{}))
		if err := e.client.Services().Delete(e.ctx, e.name, "talk"); err != nil {
			e.Error(err)
		}
		_, err = e.client.Services().Get(e.ctx, e.name, "talk")
		e.checkStatus(http.StatusNotFound, err)
	},
	"services depend on each other": func(e env) {
		sleep := func(name string, port int, needs ...string) sprites.Service {
			return sprites.Service{Name: name, Cmd: "sleep", Args: []string{"1000"}, Needs: needs, HTTPPort: port}
		}
		e.putService(sleep("db", 0), 1)
		e.putService(sleep("web", 3000, "db"), 1)
		e.checkStatus(http.StatusBadRequest, e.client.Services().Put(e.ctx, e.name, sleep("db", 0, "web"), sprites.ServiceCall{}))
		e.checkStatus(http.StatusBadRequest, e.client.Services().Put(e.ctx, e.name, sleep("x", 0, "nobody"), sprites.ServiceCall{}))
		e.checkStatus(http.StatusBadRequest, e.client.Services().Put(e.ctx, e.name, sprites.Service{Name: "x"}, sprites.ServiceCall{}))
		e.checkStatus(http.StatusConflict, e.client.Services().Put(e.ctx, e.name, sleep("x", 3001), sprites.ServiceCall{}))
		e.checkStatus(http.StatusConflict, e.client.Services().Delete(e.ctx, e.name, "db"))
		e.checkStatus(http.StatusBadRequest, e.client.Services().Signal(e.ctx, e.name, "db", "NONE"))
		e.checkStatus(http.StatusNotFound, e.client.Services().Signal(e.ctx, e.name, "nobody", "HUP"))
		all, err := e.client.Services().List(e.ctx, e.name)
		if err != nil || len(all) != 2 {
			e.Errorf("services %+v, %v", all, err)
		}
	},
	"ports are told and reached": func(e env) {
		e.mustRun("command -v perl")
		const server = `$|=1; use IO::Socket::INET; my $s=IO::Socket::INET->new(Listen=>5,LocalAddr=>"127.0.0.1:0") or die; print $s->sockport,"\n"; while(my $c=$s->accept){ my $b; sysread($c,$b,100); syswrite($c,"got $b"); close $c }`
		e.putService(sprites.Service{Name: "echo", Cmd: "perl", Args: []string{"-e", server}}, 2)
		var port sprites.PortEvent
		enough := errors.New("enough")
		see := func(p sprites.PortEvent) error { port = p; return enough }
		err := e.client.Ports().Watch(e.ctx, e.name, func(all []sprites.PortEvent) error {
			if len(all) == 0 {
				return nil
			}
			return see(all[0])
		}, see)
		if !errors.Is(err, enough) || port.Port == 0 || port.PID < 1 {
			e.Fatalf("ports: %+v, %v", port, err)
		}
		conn, err := e.client.Dial(e.ctx, e.name, port.Address, port.Port)
		if err != nil {
			e.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "this"); err != nil {
			e.Fatal(err)
		}
		if got, err := io.ReadAll(conn); string(got) != "got this" || err != nil {
			e.Errorf("the port answers %q, %v", got, err)
		}
		if conn, err := e.client.Dial(e.ctx, e.name, "localhost", 1); err == nil {
			conn.Close()
			e.Error("a port on which nothing listens was reached")
		}
	},
	"ports that open and close are told to who runs a command": func(e env) {
		e.mustRun("command -v perl")
		const server = `$|=1; use IO::Socket::INET; my $s=IO::Socket::INET->new(Listen=>5,LocalAddr=>"127.0.0.1:0") or die; print $s->sockport; <STDIN>; close $s; sleep 1000`
		s := e.openRaw(url.Values{"cmd": {"perl", "-e", server}, "stdin": {"true"}})
		port := ""
		next := func(kind string) sprites.PortEvent {
			for {
				typ, data, err := s.conn.Read(e.ctx)
				if err != nil {
					e.Fatalf("no %s: %v", kind, err)
				}
				if typ == websocket.MessageBinary && data[0] == sprites.StreamStdout {
					port += string(data[1:])
				}
				var told sprites.PortEvent
				if json.Unmarshal(data, &told) == nil && told.Type == kind {
					return told
				}
			}
		}
		opened := next("port_opened")
		if fmt.Sprint(opened.Port) != port || opened.Address == "" || opened.PID < 1 {
			e.Errorf("port %q opens: %+v", port, opened)
		}
		s.sendMessage(websocket.MessageBinary, "\x00\n")
		if closed := next("port_closed"); closed.Port != opened.Port {
			e.Errorf("port %q closes: %+v", port, closed)
		}
	},
}

// putService defines a service and returns its first events.
func (e env) putService(s sprites.Service, n int) (said []sprites.ServiceEvent) {
	e.Helper()
	enough := errors.New("enough")
	err := e.client.Services().Put(e.ctx, e.name, s, sprites.ServiceCall{Duration: time.Minute, OnEvent: func(v sprites.ServiceEvent) error {
		if said = append(said, v); len(said) >= n && (n < 2 || slices.ContainsFunc(said, func(v sprites.ServiceEvent) bool { return v.Type == "stdout" })) {
			return enough
		}
		return nil
	}})
	if !errors.Is(err, enough) {
		e.Fatalf("service %s: %v, after %+v", s.Name, err, said)
	}
	return said
}

func (e env) getService(name string) sprites.Service {
	e.Helper()
	s, err := e.client.Services().Get(e.ctx, e.name, name)
	if err != nil {
		e.Fatal(err)
	}
	return s
}

// checkStatus holds an error to be an answer of a status.
func (e env) checkStatus(want int, err error) {
	e.Helper()
	var api *sprites.APIError
	if !errors.As(err, &api) || api.Status != want {
		e.Errorf("got %v, want status %d", err, want)
	}
}
