package host

import (
	"strings"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
)

// environment is what a command gets: the box's base, the host's, the sprite's, the request's. Later ones win.
func environment(layers ...[]string) []string {
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

// translatedEnv tells commands of a box without namespaces where their folders really are.
func translatedEnv(box *sandbox.Box) []string {
	if !box.Translated() {
		return nil
	}
	return []string{"LATTICE_WORKSPACE=/workspace", "LATTICE_SOCKET=/.sprite/api.sock"} // the box translates the values
}

// signalName accepts "TERM" and "SIGTERM" in any case.
func signalName(s string) string {
	return strings.TrimPrefix(strings.ToUpper(s), "SIG")
}

// signals are those that may be sent to a session.
var signals = []string{"INT", "TERM", "HUP", "KILL", "QUIT", "USR1", "USR2", "WINCH", "CONT", "STOP", "TSTP"}

// readChunk is how much of the output of a program is read at once.
const readChunk = 32 << 10
