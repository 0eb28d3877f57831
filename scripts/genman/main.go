// Command genman writes a manual page for each command of the given programs. The text of a page is the help that the
// program prints, so that a page says nothing that --help does not say. Run it by "make man".
//
//	genman DIR PROGRAM…
//
// It follows the lists of commands in the help: lattice lists groups of commands, spritekit skills and commands.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: genman DIR PROGRAM…")
		os.Exit(2)
	}
	pages, err := writePages(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "genman:", err)
		os.Exit(1)
	}
	fmt.Printf("%d pages in %s\n", len(pages), os.Args[1])
}

// writePages writes the pages of all commands of the programs into dir and returns their paths.
func writePages(dir string, programs []string) (paths []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for _, program := range programs {
		err := visitCommands(program, []string{filepath.Base(program)}, "", func(p page) error {
			path := filepath.Join(dir, p.fileName())
			paths = append(paths, path)
			return os.WriteFile(path, p.renderRoff(), 0o644)
		})
		if err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// visitCommands calls visit for the command that words name and for all below it. summary is the command's line in the
// list of its parent.
func visitCommands(program string, words []string, summary string, visit func(page) error) error {
	help, err := exec.Command(program, append(words[1:len(words):len(words)], "--help")...).Output()
	if err != nil {
		return fmt.Errorf("%s --help: %w", strings.Join(words, " "), err)
	}
	p := parseHelp(words, summary, string(help))
	if err := visit(p); err != nil {
		return err
	}
	for _, child := range p.commands() {
		if child.name == "help" {
			continue
		}
		if err := visitCommands(program, append(words[:len(words):len(words)], child.name), child.text, visit); err != nil {
			return err
		}
	}
	return nil
}
