package sandbox

import "strings"

// translate rewrites a command for a plain box: its program, its folder, and each element of an environment value that
// names one of the box's folders.
func translate(c Config, cmd command) command {
	program := string(cmd.Program)
	cmd.Program = []byte(c.translatePath(program))
	if len(cmd.Argv) > 0 && cmd.Argv[0] == program {
		cmd.Argv = append(verbatim{string(cmd.Program)}, cmd.Argv[1:]...)
	}
	cmd.Dir = []byte(c.translatePath(string(cmd.Dir)))
	env := make([]string, len(cmd.Env))
	for i, kv := range cmd.Env {
		name, value, ok := strings.Cut(kv, "=")
		if !ok {
			env[i] = kv
			continue
		}
		parts := strings.Split(value, ":")
		for j, part := range parts {
			parts[j] = c.translatePath(part)
		}
		env[i] = name + "=" + strings.Join(parts, ":")
	}
	cmd.Env = env
	return cmd
}
