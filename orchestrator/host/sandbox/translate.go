package sandbox

import (
	"strings"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

// translateCommand rewrites a command for a plain box: its program, its folder, and each element of an environment value that
// names one of the box's folders.
func translateCommand(c spec.Config, cmd channel.Command) channel.Command {
	program := string(cmd.Program)
	cmd.Program = []byte(c.TranslatePath(program))
	if len(cmd.Argv) > 0 && cmd.Argv[0] == program {
		cmd.Argv = append(channel.Verbatim{string(cmd.Program)}, cmd.Argv[1:]...)
	}
	cmd.Dir = []byte(c.TranslatePath(string(cmd.Dir)))
	env := make([]string, len(cmd.Env))
	for i, kv := range cmd.Env {
		name, value, ok := strings.Cut(kv, "=")
		if !ok {
			env[i] = kv
			continue
		}
		parts := strings.Split(value, ":")
		for j, part := range parts {
			parts[j] = c.TranslatePath(part)
		}
		env[i] = name + "=" + strings.Join(parts, ":")
	}
	cmd.Env = env
	return cmd
}
