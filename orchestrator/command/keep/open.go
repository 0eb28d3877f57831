package keep

import (
	"context"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newOpenCmd(env *setup.Env) *cobra.Command {
	var link bool
	cmd := connect.NewQueryCmd(env, "open [RUN]", "Open the page in a browser, logged in", "  lattice open\n  lattice open run_0123\n  lattice open --link", cobra.MaximumNArgs(1),
		func(ctx context.Context, c *connect.Conn, args []string) error {
			hello, err := c.Hello(ctx)
			if err != nil {
				return err
			}
			if hello.HTTP == "" {
				return fault.NotFound("page_not_served", "the leader of %s serves no page", hello.Home).WithHint("lattice serve --http 127.0.0.1:8080, or http under [serve] in the settings")
			}
			next := "/"
			if len(args) > 0 {
				run, err := c.Run(ctx, args[0])
				if err != nil {
					return err
				}
				next = "/runs/" + run.RunID
			}
			login, err := c.CreateLogin(ctx)
			if err != nil {
				return err
			}
			url := hello.HTTP + "/login?next=" + next + "#" + login.Code
			if env.JSON {
				return env.PrintJSON(struct {
					URL string `json:"url"`
					api.Login
				}{url, login})
			}
			if !link && env.Terminal && openBrowser(env, url) == nil {
				_, err := fmt.Fprintf(env.Err, "opened %s in the browser; if it does not show: lattice open --link\n", hello.HTTP+next)
				return err
			}
			_, err = fmt.Fprintln(env.Out, url)
			return err
		})
	cmd.Long = `Open the page that lattice serve --http serves, at a run if one is given. The link logs in once, within ten minutes, as the
user who runs this command; the page may then do all that the user may do. Without a terminal, or with --link, the link is printed
instead.
` + cli.ExitCodes
	cmd.Flags().BoolVar(&link, "link", false, "print the link")
	return cmd
}

// openBrowser shows a link in the browser of the desktop. Other users of the machine see the arguments of programs, and so the link
// goes to the browser in a file.
func openBrowser(env *setup.Env, url string) error {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	program, err := exec.LookPath(program)
	if err != nil {
		return err
	}
	file := filepath.Join(env.Home, "open.html")
	text := `<!doctype html><meta http-equiv="refresh" content="0;url=` + html.EscapeString(url) + `">`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write link: %w", err)
	}
	if err := exec.Command(program, file).Run(); err != nil {
		return fmt.Errorf("start the browser: %w", err)
	}
	return nil
}
