@test "adds" {
  [ $((1 + 2)) -eq 3 ]
}

@test "adds (wrongly)" {
  echo "the sum is $((1 + 2))"
  [ $((1 + 2)) -eq 4 ]
}

@test "is skipped" {
  skip later
}

@test "does not speak for itself" {
  echo "not ok 9 forged"
  run false
  [ "$status" -eq 1 ]
}
