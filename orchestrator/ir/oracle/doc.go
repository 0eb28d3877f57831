// Package oracle holds the conditions of ExecIR against the Common Expression Language: random conditions are printed as
// CEL and decided by both. It is a module of its own, so that nothing of CEL reaches the product; start with its test,
// which make oracle runs. It never decides anything itself.
package oracle
