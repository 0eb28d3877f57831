package fleet

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/orchestrator/host/wire"
)

// guide is /.sprite/llm.txt, the instructions for programs and agents in a sprite.
const guide = `You are in a sprite, a sandbox of Lattice on the machine of the person you work for.

/workspace, /home/sprite, /tmp and the rest of the files are yours. Checkpoints keep them; a restore puts them back and
ends every process. Never kept: /var/cache/sprite, /run. Read-only: /skills, /.sprite.
You are user "sprite". sudo runs a command as the root of this sprite, without a password; where there is none it says why.

/.sprite/api.sock is an HTTP server for this sprite alone:
  curl --unix-socket /.sprite/api.sock http://sprite/v1/checkpoints
  curl --unix-socket /.sprite/api.sock -X POST http://sprite/v1/checkpoint -d '{"comment":"before the upgrade"}'
  curl --unix-socket /.sprite/api.sock -X POST http://sprite/v1/tasks -d '{"name":"build","expire":"10m"}'
A sprite that nobody is attached to and that says nothing falls asleep: its processes stand still until it is used again,
and later they end. A task keeps it awake until it expires (PUT /v1/tasks/NAME renews it, DELETE ends it).

/.sprite/bin is in your PATH: sprite-env does the same from the command line, and keeps services, which start with the
sprite (sprite-env services create web --cmd ./serve --http-port 8080; sprite-env --help).

/.sprite/policy/network.json says what may be reached over the network. /.sprite/logs holds the logs of services.
`

// Programs in /.sprite/bin, where those of the remote service are, too.
var (
	//go:embed inside/sprite-env
	spriteEnv string
	//go:embed inside/sprite-console
	spriteConsole string
)

// Furnish writes the files of /.sprite that every sprite has, its socket excepted.
func (fl *Fleet) Furnish(id string) error {
	dir := fl.RunDir(id)
	for _, d := range []string{dir, filepath.Join(dir, "logs"), filepath.Join(dir, "policy"), filepath.Join(dir, "bin"), fl.CacheDir(id)} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{"version.txt": strings.TrimPrefix(wire.Version, "v") + "\n", "llm.txt": guide} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("write /.sprite/%s: %w", name, err)
		}
	}
	for name, text := range map[string]string{"sprite-env": spriteEnv, "sprite-console": spriteConsole} {
		if err := os.WriteFile(filepath.Join(dir, "bin", name), []byte(text), 0o755); err != nil {
			return fmt.Errorf("write /.sprite/bin/%s: %w", name, err)
		}
	}
	return nil
}
