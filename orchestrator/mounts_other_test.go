//go:build !linux

package main

import (
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

func ownMounts() *syscall.SysProcAttr { return nil }

func mountDisk(ts *testscript.TestScript, _ bool, _ []string) { ts.Fatalf("no mounts here") }
