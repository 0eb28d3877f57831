// Package program holds the rules for all programs that the host starts in a sprite, as commands or as services: their
// environment, their signals, and how fast their output is read.
package program

import (
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
)

// MergeEnv merges environments: the box's base, the host's, the sprite's, the request's. Later values win.
func MergeEnv(layers ...[]string) []string {
	var env []string
	at := map[string]int{}
	for _, layer := range layers {
		for _, kv := range layer {
			name, _, _ := strings.Cut(kv, "=")
			if i, ok := at[name]; ok {
				env[i] = kv
				continue
			}
			at[name] = len(env)
			env = append(env, kv)
		}
	}
	return env
}

// EnvOf returns variables as NAME=VALUE, sorted.
func EnvOf(variables map[string]string) []string {
	env := make([]string, 0, len(variables))
	for name, value := range variables {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

// PlainEnv tells commands of a box without namespaces where their folders really are.
func PlainEnv(box *sandbox.Box) []string {
	if !box.Config().Plain() {
		return nil
	}
	return []string{"LATTICE_WORKSPACE=/workspace", "LATTICE_SOCKET=/.sprite/api.sock"} // the box translates the values
}

// SignalName accepts "TERM" and "SIGTERM" in any case.
func SignalName(s string) string {
	return strings.TrimPrefix(strings.ToUpper(s), "SIG")
}

// Signals are those that may be sent to a session.
var Signals = []string{"INT", "TERM", "HUP", "KILL", "QUIT", "USR1", "USR2", "WINCH", "CONT", "STOP", "TSTP"}

// ReadChunk is how much of the output of a program is read at once.
const ReadChunk = 32 << 10

// DefaultDir is the working directory of programs for which none is given.
const DefaultDir = "/home/sprite"
