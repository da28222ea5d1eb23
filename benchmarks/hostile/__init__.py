"""One hostile row more, or in another's place: nothing but that row may change, whatever the source and the release."""
