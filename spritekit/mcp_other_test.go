//go:build !linux

package main

import "testing"

func testMCP(t *testing.T, _ string) { t.Skip("needs pidfds to wait for processes of others") }

func testMCPGone(t *testing.T, _ string) { t.Skip("needs pidfds to wait for processes of others") }

func testMCPHTTP(t *testing.T, _ string) { t.Skip("runs where the other tests of the server do") }

func testMCPFolder(t *testing.T, _ string) { t.Skip("runs where the other tests of the server do") }
