// Package marked kills processes by a mark: a variable in the environment with which they were started. Start with [Kill].
package marked
