#[test]
fn a_lives() {}

#[test]
fn b_dies() {
    println!("about to die");
    std::process::abort();
}

#[test]
fn c_never_runs() {}
