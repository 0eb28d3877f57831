//go:build !linux

package initfile

func canExecute(string) bool { return true }
