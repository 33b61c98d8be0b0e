"""Whether controllers keep to their leader, and leaders to the term that they lead; whether they answer at once, and
let who joins vote."""
