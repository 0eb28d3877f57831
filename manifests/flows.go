package manifests

import (
	"embed"
	"path"
	"strings"
)

//go:embed flows/*.json
var flows embed.FS

// Flow returns the ExecIR document of a ready-made flow, by the name of its file without ".json".
func Flow(name string) ([]byte, bool) {
	if strings.ContainsAny(name, `/\`) {
		return nil, false
	}
	data, err := flows.ReadFile("flows/" + name + ".json")
	return data, err == nil
}

// Flows lists the names of the ready-made flows, sorted.
func Flows() []string {
	entries, err := flows.ReadDir("flows")
	if err != nil {
		return nil // not possible: the folder is embedded
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), path.Ext(e.Name()))
	}
	return names
}
