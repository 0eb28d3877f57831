package session

import (
	"context"
	"testing"
)

// What runs of a sibling is not a call's own, from the moment on that its process begins.
func TestRoster(t *testing.T) {
	r := newRoster()
	named, ended, err := r.begin(t.Context(), "s", "call_a")
	if err != nil {
		t.Fatal(err)
	}
	listed := make(chan bool)
	go func() {
		leave, err := r.enter(t.Context(), "s")
		if err != nil {
			t.Error(err)
		}
		listed <- r.others("7", "call_b") && !r.others("7", "call_a") && !r.others("8", "call_b")
		leave()
	}()
	if leave, err := r.enter(t.Context(), "another"); err != nil {
		t.Error(err)
	} else {
		leave()
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.enter(gone, "s"); err == nil {
		t.Error("entered while a process begins")
	}
	named("7")
	if !<-listed {
		t.Error("the process of call_a is not told from those of others")
	}
	ended()
	if r.others("7", "call_b") {
		t.Error("the process of a call that has ended still belongs to it")
	}
	if _, ended, err := r.begin(t.Context(), "s", "call_c"); err != nil {
		t.Error(err)
	} else {
		ended() // never named
	}
}
