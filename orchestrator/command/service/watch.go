package service

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func addFollowFlag(cmd *cobra.Command, follow *time.Duration) {
	cmd.Flags().DurationVar(follow, "duration", 3*time.Second, "how long to show its output")
}

// watcher shows the events of a service: its output as it is, all else on standard error, or everything as JSON.
type watcher struct {
	console *cli.Console
	service string
	ends    bool // it is to end
	failed  string
}

func (w *watcher) newCall(length time.Duration) sprites.ServiceCall {
	return sprites.ServiceCall{Duration: length, OnEvent: w.handleEvent}
}

func (w *watcher) handleEvent(e sprites.ServiceEvent) error {
	switch {
	case e.Type == "started":
		w.failed = ""
	case e.Type == "error":
		w.failed = cli.Clean(e.Data)
	case e.Type == "exit" && e.ExitCode != nil:
		w.failed = fmt.Sprintf("it ended with exit code %d", *e.ExitCode)
	case e.Type == "stopping": // its end is not a failure
		return w.showEvent(e)
	case e.Type == "stopped":
		w.failed = ""
	}
	return w.showEvent(e)
}

func (w *watcher) showEvent(e sprites.ServiceEvent) error {
	if w.console.JSON {
		return w.console.PrintJSON(e)
	}
	data := e.Data
	if data != "" && !strings.HasSuffix(data, "\n") {
		data += "\n"
	}
	var err error
	switch e.Type {
	case "stdout":
		_, err = fmt.Fprint(cli.SanitizeTerminal(w.console.Out), data)
	case "stderr":
		_, err = fmt.Fprint(cli.SanitizeTerminal(w.console.Err), data)
	case "exit":
		if e.ExitCode != nil {
			_, err = fmt.Fprintf(w.console.Err, "%s: exit code %d\n", w.service, *e.ExitCode)
		}
	case "complete":
	default:
		_, err = fmt.Fprintf(w.console.Err, "%s: %s\n", w.service, strings.TrimSpace(e.Type+" "+cli.Clean(e.Data)))
	}
	return err
}

// explainEnd returns the result of the call: an error, or that the service has not stayed.
func (w *watcher) explainEnd(err error) error {
	if err == nil && w.failed != "" && !w.ends {
		return &cli.ExitError{Code: protocol.ExitFailed, Err: errors.New("service " + w.service + " does not run: " + w.failed)}
	}
	return err
}
