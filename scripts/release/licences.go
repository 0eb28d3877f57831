package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// accepted lists the licences under which modules may be linked, with a phrase that only their texts hold. A module whose
// texts hold no such phrase stops the release, so that a person reads it.
var accepted = []struct{ id, phrase string }{
	{"Apache-2.0", "Apache License"},
	{"MPL-2.0", "Mozilla Public License Version 2.0"},
	{"ISC", "Permission to use, copy, modify, and distribute this software for any purpose with or without fee"},
	{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee"},
	{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"BSD-3-Clause", "Neither the name of"},
	{"BSD-3-Clause", "The name of any author may not be used to endorse"},
	{"BSD-2-Clause", "Redistributions in binary form must reproduce the above copyright notice"},
}

// licenceOf returns the id of a licence's text, or "".
func licenceOf(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for _, l := range accepted {
		if strings.Contains(strings.ToLower(text), strings.ToLower(l.phrase)) {
			return l.id
		}
	}
	return ""
}

// licenceFile matches the names of files whose text goes with a program that links the module.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)`)

// writeLicences writes the licences of all modules that are linked into a program of any platform, and of Go.
func (r *release) writeLicences(file string) error {
	modules, err := r.listModules()
	if err != nil {
		return err
	}
	goroot, err := output(r.root, "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	modules["Go, runtime and standard library"] = goroot
	modules["@xterm/xterm 6.0.0, of the page"] = filepath.Join(r.root, "orchestrator/dashboard/assets/terminal")
	var list, texts strings.Builder
	var failed error
	for _, module := range slices.Sorted(maps.Keys(modules)) {
		ids, text, err := readLicences(modules[module])
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", module, err))
		}
		fmt.Fprintf(&list, "%-70s %s\n", module, strings.Join(ids, ", "))
		fmt.Fprintf(&texts, "\n%s\n%s\n\n%s", strings.Repeat("=", 100), module, text)
	}
	if failed != nil {
		return failed
	}
	return writeFile(file, []byte("The programs contain these modules, under these licences. Their texts follow.\n\n"+list.String()+texts.String()), 0o644)
}

// listModules returns the directories of the modules that are linked on any system, by path and version.
func (r *release) listModules() (map[string]string, error) {
	modules := map[string]string{}
	for _, system := range []string{"linux", "darwin"} {
		cmd := exec.Command("go", "list", "-deps", "-tags", "nethttpomithttp2", "-f", "{{with .Module}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}",
			"./orchestrator", "./spritekit", "./spritekit/extra")
		if system == "linux" {
			cmd.Args = append(cmd.Args, "./orchestrator/host/sandbox/boxinit")
		}
		cmd.Dir, cmd.Env = r.root, append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		for line := range bytes.Lines(out) {
			parts := strings.Split(strings.TrimSuffix(string(line), "\n"), "\t")
			if len(parts) == 3 && parts[1] != "" { // the main module has no version
				modules[parts[0]+" "+parts[1]] = parts[2]
			}
		}
	}
	return modules, nil
}

// readLicences returns the licences of a module's directory and the texts of its files.
func readLicences(dir string) (ids []string, text string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, "", err
	}
	for _, e := range entries {
		if !licenceFile.MatchString(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, "", err
		}
		if id := licenceOf(string(data)); id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
		text += strings.TrimSpace(string(data)) + "\n\n"
	}
	if len(ids) == 0 {
		return nil, "", errors.New("its licence is not one of those that are accepted: read it, then add it to the list or drop the module")
	}
	return ids, text, nil
}
