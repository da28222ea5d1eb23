"""The one room of synthesis where rows meet noise."""
