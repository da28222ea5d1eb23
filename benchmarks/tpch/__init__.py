"""The warehouse of TPC-H as a workspace: customers are the persons, and orders and their lines are linked to them."""
