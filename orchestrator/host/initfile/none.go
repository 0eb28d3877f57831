//go:build !boxinit || !linux

package initfile

const program, programID = "", ""
