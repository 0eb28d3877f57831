//go:build !linux

package sandbox

func freeStart(int) bool { return false } // needs Linux's /proc
