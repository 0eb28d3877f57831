package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// machine describes the machine, on which the figures depend.
type machine struct {
	Time             string   `json:"time"`
	CPU              string   `json:"cpu"`
	CPUs             int      `json:"cpus"`
	System           string   `json:"system"`
	Commit           string   `json:"commit"`
	Versions         []string `json:"versions"`
	LoadBefore       string   `json:"load_before"`
	LoadAfter        string   `json:"load_after"`
	Folder           string   `json:"folder"` // where files were written
	CommitsPerSecond float64  `json:"raw_commits_per_second"`
}

func look(ctx context.Context, dir string, commits int) (machine, error) {
	m := machine{
		Time: time.Now().UTC().Format("2006-01-02 15:04 UTC"), CPU: cpuModel(), CPUs: runtime.NumCPU(),
		System: runtime.GOOS + "/" + runtime.GOARCH, Commit: "unknown", LoadBefore: load(), Folder: filepath.Dir(dir),
	}
	if kernel := firstLine(ctx, "uname", "-sr"); kernel != "" {
		m.System = kernel + " " + runtime.GOARCH
	}
	if commit := firstLine(ctx, "git", "describe", "--always", "--dirty"); commit != "" {
		m.Commit = commit
	}
	for _, tool := range [][]string{{"go", "version"}, {"git", "--version"}, {"bash", "--version"}, {"jq", "--version"}, {"python3", "--version"}} {
		if v := firstLine(ctx, tool[0], tool[1:]...); v != "" {
			m.Versions = append(m.Versions, v)
		} else {
			m.Versions = append(m.Versions, tool[0]+" is not there")
		}
	}
	var err error
	m.CommitsPerSecond, err = commitRate(ctx, dir, commits)
	return m, err
}

// firstLine of a command's output; nothing when it fails.
func firstLine(ctx context.Context, name string, args ...string) string {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}

func cpuModel() string {
	data, _ := os.ReadFile("/proc/cpuinfo") // elsewhere there is none, and no model
	for line := range strings.Lines(string(data)) {
		if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return "CPU of unknown model"
}

// load is the average of runnable processes over the last minute.
func load() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	one, _, _ := strings.Cut(string(data), " ")
	return one
}

// commitRate measures the durable writes of 4 KiB per second: no store on the disk can exceed it with one writer.
func commitRate(ctx context.Context, dir string, n int) (float64, error) {
	f, err := os.Create(filepath.Join(dir, "commits"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	block := make([]byte, 4096)
	var times []float64
	for range n {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		start := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := datasync(f); err != nil {
			return 0, fmt.Errorf("sync: %w", err)
		}
		times = append(times, time.Since(start).Seconds())
	}
	return 1 / median(times), nil
}
