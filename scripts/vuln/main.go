// Command vuln looks for known vulnerabilities in the code that the binaries contain: this module, those that it needs, and the
// standard library. It runs govulncheck, which reports a vulnerability only if the code can reach it.
//
//	vuln [-db URL] [-optional] [MODULE…]
//
// The database is Go's, https://vuln.go.dev; -db names a copy of it, also as file:///PATH. If the database cannot be reached, nothing is
// known: the exit code is 2, or 0 with -optional. With vulnerabilities it is 3.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// errUnreachable says that nothing is known.
var errUnreachable = errors.New("the database of vulnerabilities cannot be reached")

// errFound says that there are vulnerabilities.
var errFound = errors.New("there are known vulnerabilities: update the named modules, or Go itself")

func main() {
	db := flag.String("db", "https://vuln.go.dev", "`URL` of the database")
	optional := flag.Bool("optional", false, "succeed if the database cannot be reached")
	flag.Parse()
	modules := flag.Args()
	if len(modules) == 0 {
		modules = []string{".", "orchestrator/temporal"}
	}
	tools, err := filepath.Abs("tools.mod")
	for _, module := range modules {
		err = errors.Join(err, checkModule(os.Stdout, tools, module, *db))
	}
	switch {
	case err == nil:
	case errors.Is(err, errUnreachable):
		fmt.Fprintf(os.Stderr, "vuln: nothing was checked: %v\ntry: make vuln VULNDB=file:///PATH, with a copy of the database\n", err)
		if !*optional {
			os.Exit(2)
		}
	case errors.Is(err, errFound):
		fmt.Fprintln(os.Stderr, "vuln:", err)
		os.Exit(3)
	default:
		fmt.Fprintln(os.Stderr, "vuln:", err)
		os.Exit(1)
	}
}

var fetching = regexp.MustCompile(`(?m)((?:fetching vulnerabilities|creating client): .*)$`)

// checkModule checks the packages of the module in a folder, with the govulncheck of tools.mod.
func checkModule(out io.Writer, tools, folder, db string) error {
	fmt.Fprintf(out, "== %s\n", folder)
	path, err := exec.Command("go", "tool", "-modfile="+tools, "-n", "govulncheck").Output()
	if err != nil {
		return fmt.Errorf("build govulncheck: %w", err)
	}
	cmd := exec.Command(strings.TrimSpace(string(path)), "-db", db, "./...")
	var problems strings.Builder
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, out, &problems
	err = cmd.Run()
	var exit *exec.ExitError
	found := fetching.FindStringSubmatch(problems.String())
	switch {
	case found != nil:
		return fmt.Errorf("%w: %s", errUnreachable, found[1])
	case errors.As(err, &exit) && exit.ExitCode() == 3:
		return fmt.Errorf("%s: %w", folder, errFound)
	case err != nil:
		return fmt.Errorf("%s: govulncheck: %w\n%s", folder, err, problems.String())
	}
	return nil
}
