package proc

// markName is the variable by which the processes of a server are known after its death; see KillMarked.
const markName = "SPRITEKIT_MARK"
