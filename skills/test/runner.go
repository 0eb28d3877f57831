package test

// allRunners lists them in the order of detection: runners with detailed reports come first, and those with only an
// exit code comes last.
func allRunners() []runner {
	return []runner{
		newGolang(), newCargo(), newVitest(), newJest(), newMocha(), nodeTest(), newPytest(), newUnittest(), newMaven(), newGradle(), newDotnet(), newRSpec(), newMinitest(), newPHPUnit(), newCTest(), newBats(),
		newProve(), newNPM(), newMakefile(),
	}
}

func runnerNamed(name string) (runner, bool) {
	for _, r := range allRunners() {
		if r.name == name {
			return r, true
		}
	}
	return runner{}, false
}
