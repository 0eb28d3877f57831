package sub

import "testing"

func TestA(t *testing.T) {}

func TestB(t *testing.T) {
	var m map[string]int
	m["x"] = 1
}

func TestC(t *testing.T) {}
