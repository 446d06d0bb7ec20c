"""Counts the files in a directory."""
import os
import sys

import click


def main():
    click.echo(f"{len(os.listdir(sys.argv[1]))} files in {sys.argv[1]}")
