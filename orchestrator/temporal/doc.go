// Package temporal has runs scheduled by a Temporal server: one workflow for each run, with [engine.Step] inside of it. It is a module of
// its own, so that the ordinary lattice holds neither Temporal's SDK nor gRPC; the folder lattice builds one that does.
//
// Who does what:
//
//	workflow    applies each fact of the journal with Step, in the order of the journal, and has the commands that are then
//	            pending performed: timers by timers, all others by one activity each
//	activity    has the drive of the leader perform one command; its result are the facts that the drive appended
//	drive       is still the only one that appends to the journal, and performs a command only while an activity asks for it
//	signal      tells the workflow of facts that no activity returns: answers of people, cancellations, going back
//
// So the journal in the store stays the truth. A workflow that is lost is begun again from it, a workflow that misses a fact reads it
// there, and an activity that is repeated finds its outcome there. Temporal decides when a command is performed, and again by
// whom after a crash: an activity without a heartbeat for HeartbeatTimeout is given to the next leader.
//
// Two more things keep server and journal in agreement: a workflow of its own holds the task queue for one store, and a leader compares
// the runs that go on with the workflows that do, every ten seconds.
//
// Limits: a workflow that failed, because an activity met an error that does not pass, is begun again with the next drive only. Two copies of one store
// that work at the same time are not told apart. Time limits of runs and the counting of repeated questions to models stay in the drive.
//
// Start with Execute, which is pure, and Engine, which connects it to a leader. workflow.go imports no clock and does no I/O;
// TestReplay compares its decisions with recorded histories.
package temporal
