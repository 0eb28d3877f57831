package skill

import "github.com/spritekit/lattice/spritekit/fault"

// The functions of this file forward to package fault, which new code calls itself.

// Failed returns [fault.Failed].
func Failed(code, format string, args ...any) *Error { return fault.Failed(code, format, args...) }

// NotFound returns [fault.NotFound] with the code "not_found".
func NotFound(format string, args ...any) *Error { return fault.NotFound("not_found", format, args...) }

// Network returns [fault.Network] with the code "network".
func Network(format string, args ...any) *Error { return fault.Network("network", format, args...) }

// Busy returns [fault.Busy] with the code "busy".
func Busy(format string, args ...any) *Error { return fault.Busy("busy", format, args...) }

// Unsafe returns [fault.Unsafe].
func Unsafe(code, format string, args ...any) *Error { return fault.Unsafe(code, format, args...) }

// Unsupported returns [fault.Unsupported].
func Unsupported(code, format string, args ...any) *Error {
	return fault.Unsupported(code, format, args...)
}

// Limit returns [fault.Limit].
func Limit(code, format string, args ...any) *Error { return fault.Limit(code, format, args...) }

// Timeout returns [fault.Timeout] with the code "timeout".
func Timeout(format string, args ...any) *Error { return fault.Timeout("timeout", format, args...) }
