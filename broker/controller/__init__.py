"""The controller: one broker that decides for all. Pure decisions (placement, election, state) and the loops around them."""
